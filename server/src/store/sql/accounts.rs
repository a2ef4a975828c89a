//! The SQL of accounts.

mod attempts;
mod delete;
mod devices;
mod identities;
mod links;
mod openid;
mod owners;
mod reset;
mod row;
mod sessions;
mod tokens;

use std::time::Duration;

use diode_api::{Account, LinkedIdentity, Reason, Token, Uploads};
use diode_core::ids::{AccountId, AccountName, Digest, TokenId};
use tokio::time::timeout;

use crate::blobs::BlobKey;
use crate::store::Store;
use crate::store::accounts::{
    Created, Credentials, DeviceAnswer, LinkFor, NewAccount, NewTokenRow, PasswordReset, Tries, WaitingDevice,
};
use crate::store::connection::in_transaction;
use crate::store::error::StoreResult;
use crate::store::identities::{Identity, Linked, OpenIdSignIn, OpenIdSignUp, SignedUp, Unlinked};
use crate::store::types::Now;

/// How long a request waits until the use of its token is stored.
const NOTING: Duration = Duration::from_millis(500);

impl Store {
    /// Makes an account. With `link`, uses up this invitation in the same transaction. An invitation for the first
    /// account makes an administrator.
    pub async fn create_account(
        &self,
        account: &NewAccount,
        link: Option<&Digest>,
        now: Now,
    ) -> StoreResult<Created> {
        // Without a commit the invitation stays usable.
        in_transaction!(self, tx => owners::create(tx, account, link, now), if Created::Done(_))
    }

    /// The account with this name, and its password hash; `None` if there is no such account.
    pub async fn credentials(&self, name: &AccountName) -> StoreResult<Option<Credentials>> {
        owners::find(&mut self.reader().await?, name).await
    }

    /// An account; `None` if it no longer exists.
    pub async fn account(&self, id: &AccountId) -> StoreResult<Option<Account>> {
        owners::get(&mut self.reader().await?, id).await
    }

    /// All accounts, by name, for operators.
    pub async fn accounts(&self) -> StoreResult<Vec<Credentials>> {
        owners::list(&mut self.reader().await?).await
    }

    /// Stores that an account agrees to a version of the terms of contributing. Later agreements to the same
    /// version change nothing.
    pub async fn agree(&self, account: &AccountId, terms: u32, now: Now) -> StoreResult<()> {
        in_transaction!(self, tx => owners::agree(tx, account, terms, now))
    }

    /// Whether there is no account yet.
    pub async fn has_no_accounts(&self) -> StoreResult<bool> {
        owners::none(&mut self.reader().await?).await
    }

    /// Replaces the password and ends every session except `kept`.
    pub async fn set_password(
        &self,
        account: &AccountId,
        hash: &str,
        kept: Option<&Digest>,
    ) -> StoreResult<()> {
        in_transaction!(self, tx => owners::set_password(tx, account, hash, kept))
    }

    /// Uses up a link and sets the password of its account. Ends the account's sessions and removes its
    /// identities, because somebody with the old password may have linked them. `None` if there is no such link.
    pub async fn set_password_by_link(
        &self,
        link: &Digest,
        hash: &str,
        now: Now,
    ) -> StoreResult<Option<PasswordReset>> {
        in_transaction!(self, tx => reset::set_password_by_link(tx, link, hash, now))
    }

    /// Disables an account, or enables it again. Disabling ends its sessions, and its tokens do not work
    /// meanwhile.
    pub async fn set_disabled(&self, account: &AccountId, disabled: bool, now: Now) -> StoreResult<()> {
        in_transaction!(self, tx => owners::set_disabled(tx, account, disabled, now))
    }

    /// Deletes an account with its sessions and tokens. With [`Uploads::Delete`], also deletes its uploads and
    /// recomputes board entries. The models that it contributed are deleted, too; accepted models stay if the
    /// uploads stay. Returns the files that no row names any more.
    pub async fn delete_account(&self, account: &AccountId, uploads: Uploads) -> StoreResult<Vec<BlobKey>> {
        in_transaction!(self, tx => delete::delete(tx, account, uploads, Now::read()))
    }

    /// Begins a session.
    pub async fn add_session(
        &self,
        secret: &Digest,
        account: &AccountId,
        now: Now,
        expires: i64,
    ) -> StoreResult<()> {
        in_transaction!(self, tx => sessions::add(tx, secret, account, now, expires))
    }

    /// The account of a session; `None` if the session has ended or the account is disabled.
    pub async fn session(&self, secret: &Digest, now: Now) -> StoreResult<Option<Account>> {
        sessions::find(&mut self.reader().await?, secret, now).await
    }

    /// When a session ends, in milliseconds since 1970; `None` if there is none.
    pub async fn session_end(&self, secret: &Digest) -> StoreResult<Option<i64>> {
        sessions::end_of(&mut self.reader().await?, secret).await
    }

    /// Ends a session, if there is one.
    pub async fn end_session(&self, secret: &Digest) -> StoreResult<()> {
        in_transaction!(self, tx => sessions::end(tx, secret))
    }

    /// Adds a one-time link.
    pub async fn add_link(&self, secret: &Digest, link: &LinkFor, now: Now, expires: i64) -> StoreResult<()> {
        in_transaction!(self, tx => links::add(tx, secret, link, now, expires))
    }

    /// What a link is for. Does not use it up.
    pub async fn link(&self, secret: &Digest, now: Now) -> StoreResult<Option<LinkFor>> {
        links::find(&mut self.reader().await?, secret, now).await
    }

    /// Adds an API token.
    pub async fn add_token(&self, token: &NewTokenRow, now: Now) -> StoreResult<Token> {
        in_transaction!(self, tx => tokens::add(tx, token, now))
    }

    /// The tokens of an account, including expired ones, the newest first.
    pub async fn tokens(&self, account: &AccountId) -> StoreResult<Vec<Token>> {
        tokens::list(&mut self.reader().await?, account).await
    }

    /// The account of a token. Marks the token as used now. `None` if the token does not work.
    pub async fn use_token(&self, secret: &Digest, now: Now) -> StoreResult<Option<(Account, Token)>> {
        let found = tokens::find(&mut self.reader().await?, secret, now).await?;
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

    /// Deletes a token of an account; `false` if the account has no token with this id.
    pub async fn revoke_token(&self, account: &AccountId, token: &TokenId) -> StoreResult<bool> {
        in_transaction!(self, tx => tokens::revoke(tx, account, token))
    }

    /// Adds a program that waits.
    pub async fn add_device(&self, device: &WaitingDevice, now: Now, expires: i64) -> StoreResult<()> {
        in_transaction!(self, tx => devices::add(tx, device, now, expires))
    }

    /// The program that shows this code, unless it has been allowed already.
    pub async fn waiting_device(&self, user_code: &str, now: Now) -> StoreResult<Option<WaitingDevice>> {
        devices::find(&mut self.reader().await?, user_code, now).await
    }

    /// Allows a waiting program or, without an account, refuses it. `false` if no program waits.
    pub async fn answer_device(
        &self,
        user_code: &str,
        account: Option<&AccountId>,
        now: Now,
    ) -> StoreResult<bool> {
        in_transaction!(self, tx => devices::answer(tx, user_code, account, now))
    }

    /// The state of a waiting program. An allowed program is deleted, so only one poll sees it.
    pub async fn poll_device(&self, secret: &Digest, now: Now) -> StoreResult<DeviceAnswer> {
        // Programs ask every few seconds. So this only reads, unless there is an answer.
        let waits = devices::waits(&mut self.reader().await?, secret, now).await?;
        match waits {
            None => Ok(DeviceAnswer::Unknown),
            Some(true) => Ok(DeviceAnswer::Waiting),
            Some(false) => in_transaction!(self, tx => devices::take(tx, secret, now)),
        }
    }

    /// Counts one more try of a subject. If the first counted try lies before `since`, the count begins anew with
    /// this try. `since` lies within [`LONGEST_WINDOW`].
    pub async fn count_attempt(&self, subject: &str, since: i64, now: Now) -> StoreResult<Tries> {
        in_transaction!(self, tx => attempts::count(tx, subject, since, now))
    }

    /// Deletes the tries of a subject.
    pub async fn forget_attempts(&self, subject: &str) -> StoreResult<()> {
        in_transaction!(self, tx => attempts::forget(tx, subject))
    }
}

impl Store {
    /// The account of an identity; `None` if no account has it.
    pub async fn owner_of(&self, identity: &Identity) -> StoreResult<Option<Credentials>> {
        identities::owner(&mut self.reader().await?, identity).await
    }

    /// The identities of an account, by issuer.
    pub async fn identities(&self, account: &AccountId) -> StoreResult<Vec<LinkedIdentity>> {
        identities::list(&mut self.reader().await?, account).await
    }

    /// Links an identity to an account, if the session that asks for it has not ended.
    pub async fn link_identity(
        &self,
        account: &AccountId,
        identity: &Identity,
        session: &Digest,
        now: Now,
    ) -> StoreResult<Linked> {
        in_transaction!(self, tx => identities::link_in_session(tx, account, identity, session, now))
    }

    /// Removes an account's identity of an issuer, unless it is the only way to sign in.
    pub async fn unlink_identity(&self, account: &AccountId, issuer: &str) -> StoreResult<Unlinked> {
        in_transaction!(self, tx => identities::unlink(tx, account, issuer))
    }

    /// Removes somebody's identity of an issuer, even if it is the only way to sign in. Also ends the
    /// account's sessions, and writes the removal to the log. `false` if the account has no identity of this
    /// issuer.
    pub async fn take_identity(
        &self,
        account: &AccountName,
        issuer: &str,
        why: &Reason,
        who: &str,
        now: Now,
    ) -> StoreResult<bool> {
        in_transaction!(self, tx => identities::take(tx, account, issuer, why, who, now))
    }

    /// Stores that a browser was sent to the provider.
    pub async fn add_openid_sign_in(
        &self,
        secret: &Digest,
        sign_in: &OpenIdSignIn,
        now: Now,
        expires: i64,
    ) -> StoreResult<()> {
        in_transaction!(self, tx => openid::add_sign_in(tx, secret, sign_in, now, expires))
    }

    /// Why a browser was sent to the provider. Only the first call gets the answer.
    pub async fn take_openid_sign_in(&self, secret: &Digest, now: Now) -> StoreResult<Option<OpenIdSignIn>> {
        in_transaction!(self, tx => openid::take_sign_in(tx, secret, now))
    }

    /// Stores that somebody must choose a name.
    pub async fn add_openid_sign_up(
        &self,
        secret: &Digest,
        sign_up: &OpenIdSignUp,
        now: Now,
        expires: i64,
    ) -> StoreResult<()> {
        in_transaction!(self, tx => openid::add_sign_up(tx, secret, sign_up, now, expires))
    }

    /// The person who must choose a name; `None` if there is none.
    pub async fn openid_sign_up(&self, secret: &Digest, now: Now) -> StoreResult<Option<OpenIdSignUp>> {
        openid::sign_up(&mut self.reader().await?, secret, now).await
    }

    /// Makes the account of a person who has chosen a name, and links the identity to it. If the account is
    /// made, the same transaction uses up the sign-up and its invitation.
    pub async fn create_account_by_openid(
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
