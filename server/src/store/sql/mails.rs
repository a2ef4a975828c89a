use diode_core::ids::AccountId;

use crate::mail::EmailAddress;
use crate::solutions::Damaged;
use crate::store::Store;
use crate::store::connection::{Connection, Exclusive, in_transaction};
use crate::store::error::StoreResult;
use crate::store::fields::{parse, unsigned};
use crate::store::from_row::from_row;
use crate::store::mails::{ClaimedMail, MAIL_LEASE, MAX_WAITING_MAILS, MailKind};
use crate::store::statement::Statement;
use crate::store::types::Now;

const NEW_PASSWORD: &str = "new password";
const CONFIRMATION: &str = "confirmation";
const ADDRESS_TAKEN_OFF: &str = "address taken off";

impl Store {
    /// Queues a mail; `false` if [`MAX_WAITING_MAILS`] wait already.
    pub async fn add_mail(
        &self,
        kind: MailKind,
        account: &AccountId,
        to: &EmailAddress,
        now: Now,
    ) -> StoreResult<bool> {
        in_transaction!(self, tx => add_unless_full(tx, kind, account, to, now))
    }

    /// Gives the caller the mail that has been due for the longest time; `None` if none is due. No other caller
    /// gets the same mail within [`MAIL_LEASE`]. A mail that must be given up is claimed in the same way.
    pub async fn claim_mail(&self, now: Now) -> StoreResult<Option<ClaimedMail>> {
        // Servers look for mails every few seconds. So this only reads, unless a mail is due.
        if !is_due(&mut self.reader().await?, now).await? {
            return Ok(None);
        }
        in_transaction!(self, tx => claim(tx, now))
    }

    /// Puts a claimed mail back for its next try, at `until` in milliseconds since 1970. `false` if the claim was
    /// lost.
    pub async fn postpone_mail(&self, mail: &ClaimedMail, until: i64) -> StoreResult<bool> {
        in_transaction!(self, tx => postpone(tx, mail, until))
    }

    /// Removes a claimed mail that was sent or given up. `false` if the claim was lost.
    pub async fn remove_mail(&self, mail: &ClaimedMail) -> StoreResult<bool> {
        in_transaction!(self, tx => remove(tx, mail))
    }
}

struct MailRow {
    position: i64,
    kind: String,
    account: String,
    name: String,
    email: String,
    asked_at: i64,
    expires: i64,
    attempt: i64,
}

from_row!(MailRow { position, kind, account, name, email, asked_at, expires, attempt });

impl MailRow {
    fn mail(self) -> Result<ClaimedMail, Damaged> {
        Ok(ClaimedMail {
            position: self.position,
            kind: kind(&self.kind)?,
            account: parse("account id", self.account)?,
            name: parse("account name", self.name)?,
            to: parse("e-mail address", self.email)?,
            asked_at: self.asked_at,
            expires: self.expires,
            attempt: unsigned("attempt", self.attempt)?,
        })
    }
}

fn kind(name: &str) -> Result<MailKind, Damaged> {
    match name {
        NEW_PASSWORD => Ok(MailKind::NewPassword),
        CONFIRMATION => Ok(MailKind::Confirmation),
        ADDRESS_TAKEN_OFF => Ok(MailKind::AddressTakenOff),
        other => Err(Damaged::new("kind of mail", format_args!("`{other}`"))),
    }
}

async fn add_unless_full(
    db: &mut Connection,
    kind: MailKind,
    account: &AccountId,
    to: &EmailAddress,
    now: Now,
) -> StoreResult<bool> {
    db.turn(Exclusive::Mails).await?;
    let (waiting,): (i64,) = db.fetch_one(Statement::new("SELECT COUNT(*) FROM mails")).await?;
    if waiting >= i64::from(MAX_WAITING_MAILS) {
        return Ok(false);
    }
    add(db, kind, account, to, now).await?;
    Ok(true)
}

/// Adds a mail, even if many wait already.
pub(super) async fn add(
    db: &mut Connection,
    kind: MailKind,
    account: &AccountId,
    to: &EmailAddress,
    now: Now,
) -> StoreResult<()> {
    let name = match kind {
        MailKind::NewPassword => NEW_PASSWORD,
        MailKind::Confirmation => CONFIRMATION,
        MailKind::AddressTakenOff => ADDRESS_TAKEN_OFF,
    };
    let insert = Statement::new(
        "INSERT INTO mails (kind, account, email, asked_at, not_before, expires) VALUES ($1, $2, $3, $4, $5, $6)",
    )
    .bind(name)
    .bind(account.as_str())
    .bind(to.as_str())
    .bind(now.millis())
    .bind(now.millis())
    .bind(now.lease_end(kind.tried_for()));
    db.execute(insert).await?;
    Ok(())
}

async fn is_due(db: &mut Connection, now: Now) -> StoreResult<bool> {
    let select = Statement::new("SELECT position FROM mails WHERE not_before <= $1 LIMIT 1");
    let due: Option<(i64,)> = db.fetch_optional(select.bind(now.millis())).await?;
    Ok(due.is_some())
}

async fn claim(db: &mut Connection, now: Now) -> StoreResult<Option<ClaimedMail>> {
    let update = Statement::new(
        "UPDATE mails SET attempt = attempt + 1, not_before = $1 WHERE position = ( \
             SELECT position FROM mails WHERE not_before <= $2 ORDER BY not_before, position LIMIT 1",
    )
    .bind(now.lease_end(MAIL_LEASE))
    .bind(now.millis())
    .push(db.skip_locked())
    .push(
        ") RETURNING position, kind, account, (SELECT name FROM accounts WHERE id = mails.account) AS name, \
         email, asked_at, expires, attempt",
    );
    let row: Option<MailRow> = db.fetch_optional(update).await?;
    Ok(row.map(MailRow::mail).transpose()?)
}

async fn postpone(db: &mut Connection, mail: &ClaimedMail, until: i64) -> StoreResult<bool> {
    let update = Statement::new("UPDATE mails SET not_before = $1 WHERE position = $2 AND attempt = $3");
    let update = update.bind(until).bind(mail.position).bind(mail.attempt);
    Ok(db.execute(update).await? == 1)
}

async fn remove(db: &mut Connection, mail: &ClaimedMail) -> StoreResult<bool> {
    let delete = Statement::new("DELETE FROM mails WHERE position = $1 AND attempt = $2");
    Ok(db.execute(delete.bind(mail.position).bind(mail.attempt)).await? == 1)
}

/// Removes an account's waiting mails that have a link.
pub(super) async fn forget_links(db: &mut Connection, account: &AccountId) -> StoreResult<()> {
    let delete = Statement::new("DELETE FROM mails WHERE account = $1 AND kind <> $2");
    db.execute(delete.bind(account.as_str()).bind(ADDRESS_TAKEN_OFF)).await?;
    Ok(())
}
