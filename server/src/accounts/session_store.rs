//! Sessions, tokens and programs that wait to be allowed. Every secret arrives here as its digest.

use std::time::Duration;

use diode_api::{Account, Token};
use diode_core::ids::{AccountId, Digest, TokenId};
use tokio::time::timeout;

use crate::accounts::account_store::{ACCOUNT_COLUMNS, DeviceAnswer, NewTokenRow, WaitingDevice};
use crate::store::Store;
use crate::store::connection::Connection;
use crate::store::connection::in_transaction;
use crate::store::fields::{from_json, json, parse, readable_row, rfc3339};
use crate::store::statement::Statement;
use crate::store::{Now, StoreResult};

/// How long a request waits until the use of its token is stored.
const NOTING: Duration = Duration::from_millis(500);

/// A program, and the id of the account that has allowed it.
type Device = (WaitingDevice, Option<String>);

readable_row!(Device { secret, user_code, name, scopes: String, account } => {
    let secret = parse("device secret", secret)?;
    (WaitingDevice { secret, user_code, name, scopes: from_json("device's scopes", &scopes)? }, account)
});

/// The time of a token's last use is exact to this many milliseconds. With an exact time, each request would
/// need a write.
const USE_KNOWN_TO_MS: i64 = 60_000;

const TOKEN_COLUMNS: &str = "t.id AS token_id, t.name AS token_name, t.scopes, \
    t.created_at AS token_created_at, t.expires, t.used";

/// A token, and the time of its last use in milliseconds since 1970.
type Used = (Token, Option<i64>);

readable_row!(Used {
    token_id, token_name, scopes: String, token_created_at, expires, used: Option<i64>
} => {
    let token = Token {
        id: parse("token id", token_id)?,
        name: token_name,
        scopes: from_json("token's scopes", &scopes)?,
        created_at: token_created_at,
        expires_at: rfc3339("token's end", expires)?,
        used_at: used.map(|used| rfc3339("token's last use", used)).transpose()?,
    };
    (token, used)
});

readable_row!((Account, Used) { ..account: Account, ..token: Used, } => (account, token));

impl Store {
    /// Begins a session.
    pub async fn add_session(
        &self,
        secret: &Digest,
        account: &AccountId,
        now: Now,
        expires: i64,
    ) -> StoreResult<()> {
        in_transaction!(self, async |db| {
            db.execute(Statement::new("DELETE FROM sessions WHERE expires <= $1").bind(now.millis())).await?;
            let insert =
                Statement::new("INSERT INTO sessions (secret, account, expires) VALUES ($1, $2, $3)")
                    .bind(secret.as_str())
                    .bind(account.as_str())
                    .bind(expires);
            db.execute(insert).await?;
            Ok(())
        })
    }

    /// The account of a session; `None` if the session has ended or the account is disabled.
    pub async fn session(&self, secret: &Digest, now: Now) -> StoreResult<Option<Account>> {
        let db = &mut self.reader().await?;
        let select = Statement::new("SELECT ")
            .push(ACCOUNT_COLUMNS)
            .push(" FROM sessions s JOIN accounts a ON a.id = s.account WHERE s.secret = ")
            .push_bind(secret.as_str())
            .push(" AND a.disabled_at IS NULL AND s.expires > ")
            .push_bind(now.millis());
        db.read_optional(select).await
    }

    /// When a session ends, in milliseconds since 1970; `None` if there is none.
    pub async fn session_end(&self, secret: &Digest) -> StoreResult<Option<i64>> {
        self.reader().await?.session_end(secret).await
    }

    /// Ends a session, if there is one.
    pub async fn end_session(&self, secret: &Digest) -> StoreResult<()> {
        in_transaction!(self, async |db| {
            db.execute(Statement::new("DELETE FROM sessions WHERE secret = $1").bind(secret.as_str()))
                .await?;
            Ok(())
        })
    }

    /// Adds an API token.
    pub async fn add_token(&self, token: &NewTokenRow, now: Now) -> StoreResult<Token> {
        in_transaction!(self, async |db| {
            let insert = Statement::new(
                "INSERT INTO tokens (id, secret, account, name, scopes, created_at, expires) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7)",
            )
            .bind(token.id.as_str())
            .bind(token.secret.as_str())
            .bind(token.account.as_str())
            .bind(token.name.as_str())
            .bind(json("token's scopes", &token.scopes)?)
            .bind(now.rfc3339())
            .bind(token.expires);
            db.execute(insert).await?;
            Ok(Token {
                id: token.id.clone(),
                name: token.name.clone(),
                scopes: token.scopes.clone(),
                created_at: now.rfc3339(),
                expires_at: rfc3339("token's end", token.expires)?,
                used_at: None,
            })
        })
    }

    /// The tokens of an account, including expired ones, the newest first.
    pub async fn tokens(&self, account: &AccountId) -> StoreResult<Vec<Token>> {
        let db = &mut self.reader().await?;
        let select = Statement::new("SELECT ")
            .push(TOKEN_COLUMNS)
            .push(" FROM tokens t WHERE t.account = ")
            .push_bind(account.as_str())
            .push(" ORDER BY t.created_at DESC, t.id");
        Ok(db.read_all::<Used>(select).await?.into_iter().map(|(token, _)| token).collect())
    }

    /// The account of a token. Marks the token as used now. `None` if the token does not work.
    pub async fn use_token(&self, secret: &Digest, now: Now) -> StoreResult<Option<(Account, Token)>> {
        let found = self.reader().await?.find_token(secret, now).await?;
        let Some((account, token, is_noted)) = found else { return Ok(None) };
        if !is_noted {
            let note =
                async { in_transaction!(self, async |db| { db.note_token_use(&token.id, now).await }) };
            // A request that only reads must not wait long for this write. After `NOTING`, the next use is
            // noted instead.
            match timeout(NOTING, note).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!("the use of a token is not noted: {error}"),
                Err(_) => tracing::debug!("the use of a token is not noted: others write"),
            }
        }
        Ok(Some((account, token)))
    }

    /// Deletes a token of an account; `false` if the account has no token with this id.
    pub async fn revoke_token(&self, account: &AccountId, token: &TokenId) -> StoreResult<bool> {
        in_transaction!(self, async |db| {
            let delete = Statement::new("DELETE FROM tokens WHERE account = $1 AND id = $2");
            Ok(db.execute(delete.bind(account.as_str()).bind(token.as_str())).await? == 1)
        })
    }

    /// Adds a program that waits.
    pub async fn add_device(&self, device: &WaitingDevice, now: Now, expires: i64) -> StoreResult<()> {
        in_transaction!(self, async |db| {
            db.execute(Statement::new("DELETE FROM device_requests WHERE expires <= $1").bind(now.millis()))
                .await?;
            let insert = Statement::new(
        "INSERT INTO device_requests (secret, user_code, name, scopes, expires) VALUES ($1, $2, $3, $4, $5)",
    )
    .bind(device.secret.as_str())
    .bind(device.user_code.as_str())
    .bind(device.name.as_str())
    .bind(json("device's scopes", &device.scopes)?)
    .bind(expires);
            db.execute(insert).await?;
            Ok(())
        })
    }

    /// The program that shows this code, unless it has been allowed already.
    pub async fn waiting_device(&self, user_code: &str, now: Now) -> StoreResult<Option<WaitingDevice>> {
        let db = &mut self.reader().await?;
        let select = Statement::new(
            "SELECT secret, user_code, name, scopes, account FROM device_requests \
             WHERE user_code = $1 AND expires > $2 AND account IS NULL",
        )
        .bind(user_code)
        .bind(now.millis());
        Ok(db.read_optional::<Device>(select).await?.map(|(device, _)| device))
    }

    /// Allows a waiting program or, without an account, refuses it. `false` if no program waits.
    pub async fn answer_device(
        &self,
        user_code: &str,
        account: Option<&AccountId>,
        now: Now,
    ) -> StoreResult<bool> {
        in_transaction!(self, async |db| {
            let statement = match account {
                Some(account) => {
                    Statement::new("UPDATE device_requests SET account = ").push_bind(account.as_str())
                }
                None => Statement::new("DELETE FROM device_requests"),
            };
            let statement = statement
                .push(" WHERE user_code = ")
                .push_bind(user_code)
                .push(" AND account IS NULL AND expires > ")
                .push_bind(now.millis());
            Ok(db.execute(statement).await? == 1)
        })
    }

    /// The state of a waiting program. An allowed program is deleted, so only one poll sees it.
    pub async fn poll_device(&self, secret: &Digest, now: Now) -> StoreResult<DeviceAnswer> {
        // Programs ask every few seconds. So this only reads, unless there is an answer.
        let waits = self.reader().await?.device_waits(secret, now).await?;
        match waits {
            None => Ok(DeviceAnswer::Unknown),
            Some(true) => Ok(DeviceAnswer::Waiting),
            Some(false) => in_transaction!(self, async |db| { db.take_device(secret, now).await }),
        }
    }
}

impl Connection {
    /// Whether a program still waits; `None` if there is no such program.
    pub(crate) async fn device_waits(&mut self, secret: &Digest, now: Now) -> StoreResult<Option<bool>> {
        let select = Statement::new("SELECT account FROM device_requests WHERE secret = $1 AND expires > $2")
            .bind(secret.as_str())
            .bind(now.millis());
        let row: Option<(Option<String>,)> = self.fetch_optional(select).await?;
        Ok(row.map(|(account,)| account.is_none()))
    }

    /// Removes the program, so that only one of two polls gets the answer.
    pub(crate) async fn take_device(&mut self, secret: &Digest, now: Now) -> StoreResult<DeviceAnswer> {
        let delete = Statement::new(
            "DELETE FROM device_requests WHERE secret = $1 AND expires > $2 AND account IS NOT NULL \
             RETURNING secret, user_code, name, scopes, account",
        )
        .bind(secret.as_str())
        .bind(now.millis());
        let row: Option<Device> = self.read_optional(delete).await?;
        let Some((device, account)) = row else { return Ok(DeviceAnswer::Unknown) };
        let select = Statement::new("SELECT ")
            .push(ACCOUNT_COLUMNS)
            .push(" FROM accounts a WHERE a.disabled_at IS NULL AND a.id = ")
            .push_bind(account);
        let account: Option<Account> = self.read_optional(select).await?;
        Ok(account.map_or(DeviceAnswer::Unknown, |account| DeviceAnswer::Allowed(Box::new(account), device)))
    }

    pub(crate) async fn session_end(&mut self, secret: &Digest) -> StoreResult<Option<i64>> {
        let select = Statement::new("SELECT expires FROM sessions WHERE secret = $1").bind(secret.as_str());
        let row: Option<(i64,)> = self.fetch_optional(select).await?;
        Ok(row.map(|(expires,)| expires))
    }

    pub(crate) async fn end_sessions(
        &mut self,
        account: &AccountId,
        kept: Option<&Digest>,
    ) -> StoreResult<()> {
        let delete = Statement::new("DELETE FROM sessions WHERE account = $1 AND secret <> $2")
            .bind(account.as_str())
            .bind(kept.map_or("", Digest::as_str));
        self.execute(delete).await?;
        Ok(())
    }

    /// The last value says whether the stored last use is so recent that this use need not be stored.
    pub(crate) async fn find_token(
        &mut self,
        secret: &Digest,
        now: Now,
    ) -> StoreResult<Option<(Account, Token, bool)>> {
        let select = Statement::new("SELECT ")
            .push(ACCOUNT_COLUMNS)
            .push(", ")
            .push(TOKEN_COLUMNS)
            .push(" FROM tokens t JOIN accounts a ON a.id = t.account WHERE t.secret = ")
            .push_bind(secret.as_str())
            .push(" AND a.disabled_at IS NULL AND t.expires > ")
            .push_bind(now.millis());
        let row: Option<(Account, Used)> = self.read_optional(select).await?;
        let Some((account, (token, used))) = row else { return Ok(None) };
        Ok(Some((account, token, used.is_some_and(|used| now.millis() - used < USE_KNOWN_TO_MS))))
    }

    pub(crate) async fn note_token_use(&mut self, token: &TokenId, now: Now) -> StoreResult<()> {
        let update = Statement::new("UPDATE tokens SET used = $1 WHERE id = $2");
        self.execute(update.bind(now.millis()).bind(token.as_str())).await?;
        Ok(())
    }
}
