//! Signing in with OpenID Connect. Secrets arrive here as digests. Expired rows count as absent.

use diode_api::Reason;
use diode_core::ids::{AccountId, AccountName, Digest};

use crate::accounts::account_store::{Created, Credentials, NewAccount, select_credentials};
use crate::store::Store;
use crate::store::connection::Connection;
use crate::store::connection::in_transaction;
use crate::store::fields::{optional, readable_row};
use crate::store::statement::Statement;
use crate::store::{Now, StoreResult};

/// An identity by which somebody can sign in to an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkedIdentity {
    /// The address of the OpenID Connect provider.
    pub issuer: String,
    /// When it was linked, as RFC 3339.
    pub since: String,
}

/// The person that a provider vouches for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub issuer: String,
    /// The `sub` claim: the provider's id of the person.
    pub subject: String,
}

/// A sign-in that has begun: the browser was sent to the provider.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PendingSignIn {
    /// The page to show afterwards.
    pub next: Option<String>,
    /// The account to link; `None` to sign in.
    pub account: Option<AccountId>,
    /// The invitation by which an account may be made.
    pub invitation: Option<Digest>,
}

/// A person whom the provider vouches for, and who must choose a name for the account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingSignUp {
    pub identity: Identity,
    /// A name that the provider has for the person.
    pub suggestion: Option<String>,
    pub next: Option<String>,
    pub invitation: Option<Digest>,
}

/// Whether an identity was linked to an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linked {
    Done,
    /// Another account has the identity.
    Taken,
    /// The account already has an identity of this issuer.
    HasOne,
    /// The session that asked for the link has ended meanwhile.
    SignedOut,
}

/// Whether an identity was removed from an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unlinked {
    Done,
    /// The account has no identity of this issuer.
    NotLinked,
    /// The account has no password, so nobody could sign in any more.
    IsLast,
}

/// The outcome of a sign-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignedUp {
    /// The result of making the account.
    Made(Created),
    /// The sign-up has expired or never existed.
    Unknown,
    /// The identity was linked to an account meanwhile.
    IdentityTaken,
}

readable_row!(PendingSignIn { next, account, invitation } => PendingSignIn {
    next,
    account: optional("account id", account)?,
    invitation: optional("invitation", invitation)?,
});

readable_row!(PendingSignUp { issuer, subject, suggestion, next, invitation } => PendingSignUp {
    identity: Identity { issuer, subject },
    suggestion,
    next,
    invitation: optional("invitation", invitation)?,
});

readable_row!(LinkedIdentity { issuer, since });

impl Store {
    /// The account of an identity; `None` if no account has it.
    pub async fn owner_of(&self, identity: &Identity) -> StoreResult<Option<Credentials>> {
        let db = &mut self.reader().await?;
        let select = select_credentials()
            .push(" JOIN identities i ON i.account = a.id WHERE i.issuer = ")
            .push_bind(identity.issuer.as_str())
            .push(" AND i.subject = ")
            .push_bind(identity.subject.as_str());
        db.read_optional(select).await
    }

    /// The identities of an account, by issuer.
    pub async fn identities(&self, account: &AccountId) -> StoreResult<Vec<LinkedIdentity>> {
        self.reader().await?.identities_of(account).await
    }

    /// Links an identity to an account, if the session that asks for it has not ended.
    pub async fn link_identity(
        &self,
        account: &AccountId,
        identity: &Identity,
        session: &Digest,
        now: Now,
    ) -> StoreResult<Linked> {
        // A reset of the password changes the account's row first and then ends its sessions. So either the link is
        // made first and the reset removes it, or the session has ended and no link is made.
        in_transaction!(self, async |db| {
            let lock = Statement::new("SELECT id FROM accounts WHERE id = $1").bind(account.as_str());
            let _locked: Option<(String,)> = db.fetch_optional(lock.push(db.change_row())).await?;
            match db.session_end(session).await? {
                None => Ok(Linked::SignedOut),
                Some(_) => db.link(account, identity, now).await,
            }
        })
    }

    /// Removes an account's identity of an issuer, unless it is the only way to sign in.
    pub async fn unlink_identity(&self, account: &AccountId, issuer: &str) -> StoreResult<Unlinked> {
        in_transaction!(self, async |db| {
            if !db.is_linked(account, issuer).await? {
                return Ok(Unlinked::NotLinked);
            }
            let password =
                Statement::new("SELECT password FROM accounts WHERE id = $1").bind(account.as_str());
            let row: Option<(Option<String>,)> = db.fetch_optional(password.push(db.change_row())).await?;
            if !matches!(row, Some((Some(_),))) {
                return Ok(Unlinked::IsLast);
            }
            let delete = Statement::new("DELETE FROM identities WHERE account = $1 AND issuer = $2");
            db.execute(delete.bind(account.as_str()).bind(issuer)).await?;
            Ok(Unlinked::Done)
        })
    }

    /// Removes somebody's identity of an issuer, even if it is the only way to sign in. Also ends the
    /// account's sessions, and writes the removal to the log. `false` if the account has no identity of this
    /// issuer.
    pub async fn remove_identity(
        &self,
        account: &AccountName,
        issuer: &str,
        why: &Reason,
        who: &str,
        now: Now,
    ) -> StoreResult<bool> {
        let name = account;
        in_transaction!(self, async |db| {
            let Some(owner) = db.credentials(name).await? else { return Ok(false) };
            // Locks the account. If an identity is linked at the same time, that transaction either comes
            // first, and the link is removed here, or finds its session ended.
            let lock =
                Statement::new("SELECT id FROM accounts WHERE id = $1").bind(owner.account.id.as_str());
            let _locked: Option<(String,)> = db.fetch_optional(lock.push(db.change_row())).await?;
            // The issuer is compared here and not in SQL, because Postgres refuses a text with the character
            // NUL.
            if db.identities_of(&owner.account.id).await?.iter().all(|linked| linked.issuer != issuer) {
                return Ok(false);
            }
            let delete = Statement::new("DELETE FROM identities WHERE account = $1 AND issuer = $2");
            db.execute(delete.bind(owner.account.id.as_str()).bind(issuer)).await?;
            // Somebody may have signed in with this identity.
            db.end_sessions(&owner.account.id, None).await?;
            db.write_down(&unlinked_entry(name, issuer), why, who, now).await?;
            Ok(true)
        })
    }

    /// Stores a sign-in that has begun.
    pub async fn add_openid_sign_in(
        &self,
        secret: &Digest,
        sign_in: &PendingSignIn,
        now: Now,
        expires: i64,
    ) -> StoreResult<()> {
        in_transaction!(self, async |db| {
            db.execute(Statement::new("DELETE FROM openid_sign_ins WHERE expires <= $1").bind(now.millis()))
                .await?;
            let insert = Statement::new(
        "INSERT INTO openid_sign_ins (secret, next, account, invitation, expires) VALUES ($1, $2, $3, $4, \
         $5)",
    )
    .bind(secret.as_str())
    .bind(sign_in.next.as_deref())
    .bind(sign_in.account.as_ref().map(|account| account.as_str()))
    .bind(sign_in.invitation.as_ref().map(Digest::as_str))
    .bind(expires);
            db.execute(insert).await?;
            Ok(())
        })
    }

    /// Removes a sign-in that has begun, and returns it. So only one of two answers of the provider counts.
    pub async fn take_openid_sign_in(&self, secret: &Digest, now: Now) -> StoreResult<Option<PendingSignIn>> {
        in_transaction!(self, async |db| {
            let delete = Statement::new(
        "DELETE FROM openid_sign_ins WHERE secret = $1 AND expires > $2 RETURNING next, account, invitation",
    )
    .bind(secret.as_str())
    .bind(now.millis());
            db.read_optional(delete).await
        })
    }

    /// Stores a sign-up that waits for a name.
    pub async fn add_openid_sign_up(
        &self,
        secret: &Digest,
        sign_up: &PendingSignUp,
        now: Now,
        expires: i64,
    ) -> StoreResult<()> {
        in_transaction!(self, async |db| {
            db.execute(Statement::new("DELETE FROM openid_sign_ups WHERE expires <= $1").bind(now.millis()))
                .await?;
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
        })
    }

    /// A sign-up that waits for a name.
    pub async fn openid_sign_up(&self, secret: &Digest, now: Now) -> StoreResult<Option<PendingSignUp>> {
        let db = &mut self.reader().await?;
        let select = Statement::new(
            "SELECT issuer, subject, suggestion, next, invitation FROM openid_sign_ups \
             WHERE secret = $1 AND expires > $2",
        )
        .bind(secret.as_str())
        .bind(now.millis());
        db.read_optional(select).await
    }

    /// Makes the account of a person who has chosen a name, and links the identity to it. If the account is
    /// made, the same transaction uses up the sign-up and its invitation.
    pub async fn create_account_by_openid(
        &self,
        secret: &Digest,
        account: &NewAccount,
        now: Now,
    ) -> StoreResult<SignedUp> {
        // Commits only if the account is made. Otherwise the sign-up and the invitation stay usable.
        in_transaction!(self, async |db| {
    // The row is removed first, so that only one of two requests goes on.
    let delete = Statement::new(
        "DELETE FROM openid_sign_ups WHERE secret = $1 AND expires > $2 \
         RETURNING issuer, subject, suggestion, next, invitation",
    )
    .bind(secret.as_str())
    .bind(now.millis());
    let Some(sign_up) = db.read_optional::<PendingSignUp>(delete).await? else { return Ok(SignedUp::Unknown) };
    let created = db.create_account(account, sign_up.invitation.as_ref(), now).await?;
    let Created::Done(made) = &created else { return Ok(SignedUp::Made(created)) };
    match db.link(&made.id, &sign_up.identity, now).await? {
        Linked::Done => Ok(SignedUp::Made(created)),
        Linked::Taken | Linked::HasOne | Linked::SignedOut => Ok(SignedUp::IdentityTaken),
    }
}, if SignedUp::Made(Created::Done(_)))
    }
}

impl Connection {
    pub(crate) async fn identities_of(&mut self, account: &AccountId) -> StoreResult<Vec<LinkedIdentity>> {
        let select = "SELECT issuer, created_at AS since FROM identities WHERE account = $1 ORDER BY issuer";
        self.read_all(Statement::new(select).bind(account.as_str())).await
    }

    async fn is_linked(&mut self, account: &AccountId, issuer: &str) -> StoreResult<bool> {
        let select = Statement::new("SELECT subject FROM identities WHERE account = $1 AND issuer = $2")
            .bind(account.as_str())
            .bind(issuer);
        let row: Option<(String,)> = self.fetch_optional(select).await?;
        Ok(row.is_some())
    }

    /// Adds the row of an identity, or says what stands against it.
    pub(crate) async fn link(
        &mut self,
        account: &AccountId,
        identity: &Identity,
        now: Now,
    ) -> StoreResult<Linked> {
        let insert = Statement::new(
            "INSERT INTO identities (issuer, subject, account, created_at) VALUES ($1, $2, $3, $4) \
             ON CONFLICT DO NOTHING",
        )
        .bind(identity.issuer.as_str())
        .bind(identity.subject.as_str())
        .bind(account.as_str())
        .bind(now.rfc3339());
        if self.execute(insert).await? == 1 {
            return Ok(Linked::Done);
        }
        Ok(if self.is_linked(account, &identity.issuer).await? { Linked::HasOne } else { Linked::Taken })
    }

    /// Removes all identities of an account. Returns their issuers.
    pub(crate) async fn take_identities(&mut self, account: &AccountId) -> StoreResult<Vec<String>> {
        let issuers = self.identities_of(account).await?.into_iter().map(|linked| linked.issuer).collect();
        self.execute(Statement::new("DELETE FROM identities WHERE account = $1").bind(account.as_str()))
            .await?;
        Ok(issuers)
    }
}

/// The entry in the log about an identity that was removed.
pub(crate) fn unlinked_entry(account: &AccountName, issuer: &str) -> String {
    format!("unlink {account} from {issuer}")
}
