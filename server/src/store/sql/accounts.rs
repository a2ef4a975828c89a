//! The SQL of accounts.

mod attempts;
mod delete;
mod devices;
mod email;
mod identities;
mod links;
mod openid;
mod owners;
mod reset;
mod row;
mod sessions;
mod tokens;

use std::time::Duration;

use async_trait::async_trait;
use diode_api::{Account, LinkedIdentity, Reason, Token, Uploads};
use diode_core::ids::{AccountId, AccountName, Digest, TokenId};
use sqlx::Database;
use tokio::time::timeout;

use super::connection::Connection;
use super::{SqlStore, reader};
use crate::blobs::BlobKey;
use crate::mail::EmailAddress;
use crate::store::accounts::{
    AccountStore, Created, Credentials, DeviceAnswer, LinkFor, NewAccount, NewTokenRow, PasswordReset, Tries,
    WaitingDevice,
};
use crate::store::error::StoreResult;
use crate::store::identities::{
    Identity, IdentityStore, Linked, OpenIdSignIn, OpenIdSignUp, SignedUp, Unlinked,
};
use crate::store::types::Now;

/// How long a request waits until the use of its token is stored.
const NOTING: Duration = Duration::from_millis(500);

#[async_trait]
impl<DB: Database<Connection: Connection>> AccountStore for SqlStore<DB> {
    async fn create_account(
        &self,
        account: &NewAccount,
        link: Option<&Digest>,
        now: Now,
    ) -> StoreResult<Created> {
        // Without a commit the invitation stays usable.
        in_transaction!(self, tx => owners::create(tx, account, link, now), if Created::Done(_))
    }

    async fn credentials(&self, name: &AccountName) -> StoreResult<Option<Credentials>> {
        owners::find(&mut *reader(self).await?, name).await
    }

    async fn account(&self, id: &AccountId) -> StoreResult<Option<Account>> {
        owners::get(&mut *reader(self).await?, id).await
    }

    async fn accounts(&self) -> StoreResult<Vec<Credentials>> {
        owners::list(&mut *reader(self).await?).await
    }

    async fn agree(&self, account: &AccountId, terms: u32, now: Now) -> StoreResult<()> {
        in_transaction!(self, tx => owners::agree(tx, account, terms, now))
    }

    async fn has_no_accounts(&self) -> StoreResult<bool> {
        owners::none(&mut *reader(self).await?).await
    }

    async fn set_password(&self, account: &AccountId, hash: &str, kept: Option<&Digest>) -> StoreResult<()> {
        in_transaction!(self, tx => owners::set_password(tx, account, hash, kept))
    }

    async fn set_password_by_link(
        &self,
        link: &Digest,
        hash: &str,
        now: Now,
    ) -> StoreResult<Option<PasswordReset>> {
        in_transaction!(self, tx => reset::set_password_by_link(tx, link, hash, now))
    }

    async fn accounts_of_email(&self, email: &EmailAddress) -> StoreResult<Vec<Credentials>> {
        email::owners(&mut *reader(self).await?, email).await
    }

    async fn confirm_email(
        &self,
        link: &Digest,
        account: &AccountId,
        tells: bool,
        now: Now,
    ) -> StoreResult<Option<EmailAddress>> {
        in_transaction!(self, tx => email::confirm(tx, link, account, tells, now))
    }

    async fn remove_email(
        &self,
        account: &AccountId,
        tells: bool,
        now: Now,
    ) -> StoreResult<Option<EmailAddress>> {
        in_transaction!(self, tx => email::remove(tx, account, tells, now))
    }

    async fn set_disabled(&self, account: &AccountId, disabled: bool, now: Now) -> StoreResult<()> {
        in_transaction!(self, tx => owners::set_disabled(tx, account, disabled, now))
    }

    async fn delete_account(&self, account: &AccountId, uploads: Uploads) -> StoreResult<Vec<BlobKey>> {
        in_transaction!(self, tx => delete::delete(tx, account, uploads, Now::read()))
    }

    async fn add_session(
        &self,
        secret: &Digest,
        account: &AccountId,
        now: Now,
        expires: i64,
    ) -> StoreResult<()> {
        in_transaction!(self, tx => sessions::add(tx, secret, account, now, expires))
    }

    async fn session(&self, secret: &Digest, now: Now) -> StoreResult<Option<Account>> {
        sessions::find(&mut *reader(self).await?, secret, now).await
    }

    async fn session_end(&self, secret: &Digest) -> StoreResult<Option<i64>> {
        sessions::end_of(&mut *reader(self).await?, secret).await
    }

    async fn end_session(&self, secret: &Digest) -> StoreResult<()> {
        in_transaction!(self, tx => sessions::end(tx, secret))
    }

    async fn add_link(&self, secret: &Digest, link: &LinkFor, now: Now, expires: i64) -> StoreResult<()> {
        in_transaction!(self, tx => links::add(tx, secret, link, now, expires))
    }

    async fn link(&self, secret: &Digest, now: Now) -> StoreResult<Option<LinkFor>> {
        links::find(&mut *reader(self).await?, secret, now).await
    }

    async fn add_token(&self, token: &NewTokenRow, now: Now) -> StoreResult<Token> {
        in_transaction!(self, tx => tokens::add(tx, token, now))
    }

    async fn tokens(&self, account: &AccountId) -> StoreResult<Vec<Token>> {
        tokens::list(&mut *reader(self).await?, account).await
    }

    async fn use_token(&self, secret: &Digest, now: Now) -> StoreResult<Option<(Account, Token)>> {
        let found = tokens::find(&mut *reader(self).await?, secret, now).await?;
        let Some((account, token, is_noted)) = found else { return Ok(None) };
        if !is_noted {
            let note = async { in_transaction!(self, tx => tokens::note_use(tx, &token.id, now)) };
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

    async fn revoke_token(&self, account: &AccountId, token: &TokenId) -> StoreResult<bool> {
        in_transaction!(self, tx => tokens::revoke(tx, account, token))
    }

    async fn add_device(&self, device: &WaitingDevice, now: Now, expires: i64) -> StoreResult<()> {
        in_transaction!(self, tx => devices::add(tx, device, now, expires))
    }

    async fn waiting_device(&self, user_code: &str, now: Now) -> StoreResult<Option<WaitingDevice>> {
        devices::find(&mut *reader(self).await?, user_code, now).await
    }

    async fn answer_device(
        &self,
        user_code: &str,
        account: Option<&AccountId>,
        now: Now,
    ) -> StoreResult<bool> {
        in_transaction!(self, tx => devices::answer(tx, user_code, account, now))
    }

    async fn poll_device(&self, secret: &Digest, now: Now) -> StoreResult<DeviceAnswer> {
        // Programs ask every few seconds. So this only reads, unless there is an answer.
        let waits = devices::waits(&mut *reader(self).await?, secret, now).await?;
        match waits {
            None => Ok(DeviceAnswer::Unknown),
            Some(true) => Ok(DeviceAnswer::Waiting),
            Some(false) => in_transaction!(self, tx => devices::take(tx, secret, now)),
        }
    }

    async fn count_attempt(&self, subject: &str, since: i64, now: Now) -> StoreResult<Tries> {
        in_transaction!(self, tx => attempts::count(tx, subject, since, now))
    }

    async fn forget_attempts(&self, subject: &str) -> StoreResult<()> {
        in_transaction!(self, tx => attempts::forget(tx, subject))
    }
}

#[async_trait]
impl<DB: Database<Connection: Connection>> IdentityStore for SqlStore<DB> {
    async fn owner_of(&self, identity: &Identity) -> StoreResult<Option<Credentials>> {
        identities::owner(&mut *reader(self).await?, identity).await
    }

    async fn identities(&self, account: &AccountId) -> StoreResult<Vec<LinkedIdentity>> {
        identities::list(&mut *reader(self).await?, account).await
    }

    async fn link_identity(
        &self,
        account: &AccountId,
        identity: &Identity,
        session: &Digest,
        now: Now,
    ) -> StoreResult<Linked> {
        in_transaction!(self, tx => identities::link_in_session(tx, account, identity, session, now))
    }

    async fn unlink_identity(&self, account: &AccountId, issuer: &str) -> StoreResult<Unlinked> {
        in_transaction!(self, tx => identities::unlink(tx, account, issuer))
    }

    async fn take_identity(
        &self,
        account: &AccountName,
        issuer: &str,
        why: &Reason,
        who: &str,
        now: Now,
    ) -> StoreResult<bool> {
        in_transaction!(self, tx => identities::take(tx, account, issuer, why, who, now))
    }

    async fn add_openid_sign_in(
        &self,
        secret: &Digest,
        sign_in: &OpenIdSignIn,
        now: Now,
        expires: i64,
    ) -> StoreResult<()> {
        in_transaction!(self, tx => openid::add_sign_in(tx, secret, sign_in, now, expires))
    }

    async fn take_openid_sign_in(&self, secret: &Digest, now: Now) -> StoreResult<Option<OpenIdSignIn>> {
        in_transaction!(self, tx => openid::take_sign_in(tx, secret, now))
    }

    async fn add_openid_sign_up(
        &self,
        secret: &Digest,
        sign_up: &OpenIdSignUp,
        now: Now,
        expires: i64,
    ) -> StoreResult<()> {
        in_transaction!(self, tx => openid::add_sign_up(tx, secret, sign_up, now, expires))
    }

    async fn openid_sign_up(&self, secret: &Digest, now: Now) -> StoreResult<Option<OpenIdSignUp>> {
        openid::sign_up(&mut *reader(self).await?, secret, now).await
    }

    async fn create_account_by_openid(
        &self,
        secret: &Digest,
        account: &NewAccount,
        now: Now,
    ) -> StoreResult<SignedUp> {
        // Without a commit the sign-up and the invitation stay usable.
        in_transaction!(
            self,
            tx => openid::create_account(tx, secret, account, now),
            if SignedUp::Made(Created::Done(_))
        )
    }
}
