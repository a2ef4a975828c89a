use diode_api::{Account, Token};
use diode_core::ids::{AccountId, Digest, TokenId};

use super::row::{AccountRow, COLUMNS};
use crate::solutions::Damaged;
use crate::store::accounts::NewTokenRow;
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::{from_json, json, parse, rfc3339};
use crate::store::from_row::from_row;
use crate::store::statement::Statement;
use crate::store::types::Now;

/// The time of a token's last use is exact to this many milliseconds. With an exact time, each request would
/// need a write.
const USE_KNOWN_TO_MS: i64 = 60_000;

const TOKEN_COLUMNS: &str = "t.id AS token_id, t.name AS token_name, t.scopes, \
    t.created_at AS token_created_at, t.expires, t.used";

struct TokenRow {
    token_id: String,
    token_name: String,
    scopes: String,
    token_created_at: String,
    expires: i64,
    used: Option<i64>,
}

from_row!(TokenRow { token_id, token_name, scopes, token_created_at, expires, used });

impl TokenRow {
    fn token(self) -> Result<Token, Damaged> {
        Ok(Token {
            id: parse("token id", self.token_id)?,
            name: self.token_name,
            scopes: from_json("token's scopes", &self.scopes)?,
            created_at: self.token_created_at,
            expires_at: rfc3339("token's end", self.expires)?,
            used_at: self.used.map(|used| rfc3339("token's last use", used)).transpose()?,
        })
    }
}

struct OwnedRow {
    account: AccountRow,
    token: TokenRow,
}

impl<'r, R: sqlx::Row> sqlx::FromRow<'r, R> for OwnedRow
where
    AccountRow: sqlx::FromRow<'r, R>,
    TokenRow: sqlx::FromRow<'r, R>,
{
    fn from_row(row: &'r R) -> sqlx::Result<Self> {
        Ok(Self { account: sqlx::FromRow::from_row(row)?, token: sqlx::FromRow::from_row(row)? })
    }
}

pub(super) async fn add(db: &mut Connection, token: &NewTokenRow, now: Now) -> StoreResult<Token> {
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
}

pub(super) async fn list(db: &mut Connection, account: &AccountId) -> StoreResult<Vec<Token>> {
    let select = Statement::new("SELECT ")
        .push(TOKEN_COLUMNS)
        .push(" FROM tokens t WHERE t.account = ")
        .push_bind(account.as_str())
        .push(" ORDER BY t.created_at DESC, t.id");
    let rows: Vec<TokenRow> = db.fetch_all(select).await?;
    Ok(rows.into_iter().map(TokenRow::token).collect::<Result<_, _>>()?)
}

/// The last value says whether the stored last use is so recent that this use need not be stored.
pub(super) async fn find(
    db: &mut Connection,
    secret: &Digest,
    now: Now,
) -> StoreResult<Option<(Account, Token, bool)>> {
    let select = Statement::new("SELECT ")
        .push(COLUMNS)
        .push(", ")
        .push(TOKEN_COLUMNS)
        .push(" FROM tokens t JOIN accounts a ON a.id = t.account WHERE t.secret = ")
        .push_bind(secret.as_str())
        .push(" AND a.disabled_at IS NULL AND t.expires > ")
        .push_bind(now.millis());
    let row: Option<OwnedRow> = db.fetch_optional(select).await?;
    let Some(OwnedRow { account, token }) = row else { return Ok(None) };
    let is_noted = token.used.is_some_and(|used| now.millis() - used < USE_KNOWN_TO_MS);
    Ok(Some((account.account()?, token.token()?, is_noted)))
}

pub(super) async fn note_use(db: &mut Connection, token: &TokenId, now: Now) -> StoreResult<()> {
    let update = Statement::new("UPDATE tokens SET used = $1 WHERE id = $2");
    db.execute(update.bind(now.millis()).bind(token.as_str())).await?;
    Ok(())
}

pub(super) async fn revoke(db: &mut Connection, account: &AccountId, token: &TokenId) -> StoreResult<bool> {
    let delete = Statement::new("DELETE FROM tokens WHERE account = $1 AND id = $2");
    Ok(db.execute(delete.bind(account.as_str()).bind(token.as_str())).await? == 1)
}
