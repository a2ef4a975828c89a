use diode_core::ids::Digest;

use super::{identities, owners};
use crate::solutions::Damaged;
use crate::store::accounts::{Created, NewAccount};
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::optional;
use crate::store::from_row::from_row;
use crate::store::identities::{Identity, Linked, OpenIdSignIn, OpenIdSignUp, SignedUp};
use crate::store::statement::Statement;
use crate::store::types::Now;

struct SignInRow {
    next: Option<String>,
    account: Option<String>,
    invitation: Option<String>,
}

from_row!(SignInRow { next, account, invitation });

struct SignUpRow {
    issuer: String,
    subject: String,
    suggestion: Option<String>,
    next: Option<String>,
    invitation: Option<String>,
}

from_row!(SignUpRow { issuer, subject, suggestion, next, invitation });

impl SignUpRow {
    fn sign_up(self) -> Result<OpenIdSignUp, Damaged> {
        Ok(OpenIdSignUp {
            identity: Identity { issuer: self.issuer, subject: self.subject },
            suggestion: self.suggestion,
            next: self.next,
            invitation: optional("invitation", self.invitation)?,
        })
    }
}

pub(super) async fn add_sign_in(
    db: &mut Connection,
    secret: &Digest,
    sign_in: &OpenIdSignIn,
    now: Now,
    expires: i64,
) -> StoreResult<()> {
    db.execute(Statement::new("DELETE FROM openid_sign_ins WHERE expires <= $1").bind(now.millis())).await?;
    let insert = Statement::new(
        "INSERT INTO openid_sign_ins (secret, next, account, invitation, expires) VALUES ($1, $2, $3, $4, $5)",
    )
    .bind(secret.as_str())
    .bind(sign_in.next.as_deref())
    .bind(sign_in.account.as_ref().map(|account| account.as_str()))
    .bind(sign_in.invitation.as_ref().map(Digest::as_str))
    .bind(expires);
    db.execute(insert).await?;
    Ok(())
}

/// Removes the row, so that only one of two answers counts.
pub(super) async fn take_sign_in(
    db: &mut Connection,
    secret: &Digest,
    now: Now,
) -> StoreResult<Option<OpenIdSignIn>> {
    let delete = Statement::new(
        "DELETE FROM openid_sign_ins WHERE secret = $1 AND expires > $2 RETURNING next, account, invitation",
    )
    .bind(secret.as_str())
    .bind(now.millis());
    let row: Option<SignInRow> = db.fetch_optional(delete).await?;
    let Some(row) = row else { return Ok(None) };
    Ok(Some(OpenIdSignIn {
        next: row.next,
        account: optional("account id", row.account)?,
        invitation: optional("invitation", row.invitation)?,
    }))
}

pub(super) async fn add_sign_up(
    db: &mut Connection,
    secret: &Digest,
    sign_up: &OpenIdSignUp,
    now: Now,
    expires: i64,
) -> StoreResult<()> {
    db.execute(Statement::new("DELETE FROM openid_sign_ups WHERE expires <= $1").bind(now.millis())).await?;
    let insert = Statement::new(
        "INSERT INTO openid_sign_ups (secret, issuer, subject, suggestion, next, invitation, expires) \
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(secret.as_str())
    .bind(sign_up.identity.issuer.as_str())
    .bind(sign_up.identity.subject.as_str())
    .bind(sign_up.suggestion.as_deref())
    .bind(sign_up.next.as_deref())
    .bind(sign_up.invitation.as_ref().map(Digest::as_str))
    .bind(expires);
    db.execute(insert).await?;
    Ok(())
}

pub(super) async fn sign_up(
    db: &mut Connection,
    secret: &Digest,
    now: Now,
) -> StoreResult<Option<OpenIdSignUp>> {
    let select = Statement::new(
        "SELECT issuer, subject, suggestion, next, invitation FROM openid_sign_ups \
         WHERE secret = $1 AND expires > $2",
    )
    .bind(secret.as_str())
    .bind(now.millis());
    let row: Option<SignUpRow> = db.fetch_optional(select).await?;
    Ok(row.map(SignUpRow::sign_up).transpose()?)
}

/// The caller must commit only if an account was made.
pub(super) async fn create_account(
    db: &mut Connection,
    secret: &Digest,
    account: &NewAccount,
    now: Now,
) -> StoreResult<SignedUp> {
    // The row is removed first, so that only one of two requests goes on.
    let delete = Statement::new(
        "DELETE FROM openid_sign_ups WHERE secret = $1 AND expires > $2 \
         RETURNING issuer, subject, suggestion, next, invitation",
    )
    .bind(secret.as_str())
    .bind(now.millis());
    let row: Option<SignUpRow> = db.fetch_optional(delete).await?;
    let Some(sign_up) = row.map(SignUpRow::sign_up).transpose()? else { return Ok(SignedUp::Unknown) };
    let created = owners::create(db, account, sign_up.invitation.as_ref(), now).await?;
    let Created::Done(made) = &created else { return Ok(SignedUp::Made(created)) };
    match identities::link(db, &made.id, &sign_up.identity, now).await? {
        Linked::Done => Ok(SignedUp::Made(created)),
        Linked::Taken | Linked::HasOne | Linked::SignedOut => Ok(SignedUp::IdentityTaken),
    }
}
