//! Signing in by an OpenID Connect provider: what the rest of the server may ask of the store about it.
//!
//! Every secret arrives here as its [`Digest`]. What has expired is as good as absent.

use async_trait::async_trait;
use diode_core::api::{LinkedIdentity, Reason};
use diode_core::ids::{AccountId, AccountName, Digest};

use super::accounts::{Created, Credentials, NewAccount};
use super::error::StoreResult;
use super::types::Now;

/// Whom a provider vouches for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub issuer: String,
    /// The provider's own name for them, which it gives to nobody else.
    pub subject: String,
}

/// A browser that was sent to the provider, and what it is to do once it is back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenIdSignIn {
    /// The page that is gone on to.
    pub next: Option<String>,
    /// The account to link; `None` to sign in.
    pub account: Option<AccountId>,
    /// The invitation by which an account may be made.
    pub invitation: Option<Digest>,
}

/// Somebody whom a provider vouches for, and who has no account yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenIdSignUp {
    pub identity: Identity,
    /// A name that the provider knows them by.
    pub suggestion: Option<String>,
    pub next: Option<String>,
    pub invitation: Option<Digest>,
}

/// Whether an identity could be linked to an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linked {
    Done,
    /// It is another account's.
    Taken,
    /// The account has an identity of this issuer already.
    HasOne,
    /// The session that asked for it has ended meanwhile.
    SignedOut,
}

/// Whether an identity could be taken off an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unlinked {
    Done,
    /// The account has none of this issuer.
    NotLinked,
    /// The account has no password, so nobody could sign in any more.
    IsLast,
}

/// Whether somebody whom a provider vouches for got an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignedUp {
    /// As for every other account.
    Made(Created),
    /// The sign-up has expired or never existed.
    Unknown,
    /// Meanwhile the identity has an account.
    IdentityTaken,
}

/// What the database keeps of identities. Every method is one transaction.
#[async_trait]
pub trait IdentityStore: Send + Sync {
    /// Whose identity it is; `None` if it is nobody's.
    async fn owner_of(&self, identity: &Identity) -> StoreResult<Option<Credentials>>;

    /// What an account is linked with, by issuer.
    async fn identities(&self, account: &AccountId) -> StoreResult<Vec<LinkedIdentity>>;

    /// Links an identity to an account, if the session that asks for it goes on.
    async fn link_identity(
        &self,
        account: &AccountId,
        identity: &Identity,
        session: &Digest,
        now: Now,
    ) -> StoreResult<Linked>;

    /// Takes the identity of an issuer off an account, unless nothing else would be left to sign in by.
    async fn unlink_identity(&self, account: &AccountId, issuer: &str) -> StoreResult<Unlinked>;

    /// Takes the identity of an issuer off somebody's account, also the last way into it, ends the account's
    /// sessions, and writes it down. `false` if it has none of this issuer.
    async fn take_identity(
        &self,
        account: &AccountName,
        issuer: &str,
        why: &Reason,
        who: &str,
        now: Now,
    ) -> StoreResult<bool>;

    /// Notes that a browser was sent to the provider.
    async fn add_openid_sign_in(
        &self,
        secret: &Digest,
        sign_in: &OpenIdSignIn,
        now: Now,
        expires: i64,
    ) -> StoreResult<()>;

    /// What a browser that came back was sent for. Only one question gets the answer.
    async fn take_openid_sign_in(&self, secret: &Digest, now: Now) -> StoreResult<Option<OpenIdSignIn>>;

    /// Notes that somebody is to choose a name.
    async fn add_openid_sign_up(
        &self,
        secret: &Digest,
        sign_up: &OpenIdSignUp,
        now: Now,
        expires: i64,
    ) -> StoreResult<()>;

    /// Who is to choose a name; `None` if there is nobody.
    async fn openid_sign_up(&self, secret: &Digest, now: Now) -> StoreResult<Option<OpenIdSignUp>>;

    /// Makes the account of somebody who has chosen a name, and links it. Uses up the sign-up and its
    /// invitation in the same transaction, unless no account is made.
    async fn create_account_by_openid(
        &self,
        secret: &Digest,
        account: &NewAccount,
        now: Now,
    ) -> StoreResult<SignedUp>;
}
