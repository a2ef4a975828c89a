//! What the rest of the server may ask of the store about signing in by an OpenID Connect provider.
//!
//! Every secret arrives here as its [`Digest`]. An expired row counts as absent.

use async_trait::async_trait;
use diode_api::{LinkedIdentity, Reason};
use diode_core::ids::{AccountId, AccountName, Digest};

use super::accounts::{Created, Credentials, NewAccount};
use super::error::StoreResult;
use super::types::Now;

/// The person that a provider vouches for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub issuer: String,
    /// The provider's name for the person, which it gives to nobody else.
    pub subject: String,
}

/// A browser that was sent to the provider, and what happens when it is back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenIdSignIn {
    /// The page that the browser goes to afterwards.
    pub next: Option<String>,
    /// The account to link; `None` to sign in.
    pub account: Option<AccountId>,
    /// The invitation by which an account may be made.
    pub invitation: Option<Digest>,
}

/// A person that a provider vouches for and who has no account yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenIdSignUp {
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

/// Whether a person that a provider vouches for got an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SignedUp {
    /// The result of making the account.
    Made(Created),
    /// The sign-up has expired or never existed.
    Unknown,
    /// The identity has got an account meanwhile.
    IdentityTaken,
}

/// What the database stores about identities. Every method is one transaction.
#[async_trait]
pub trait IdentityStore: Send + Sync {
    /// The account of an identity; `None` if no account has it.
    async fn owner_of(&self, identity: &Identity) -> StoreResult<Option<Credentials>>;

    /// The identities of an account, by issuer.
    async fn identities(&self, account: &AccountId) -> StoreResult<Vec<LinkedIdentity>>;

    /// Links an identity to an account, if the session that asks for it has not ended.
    async fn link_identity(
        &self,
        account: &AccountId,
        identity: &Identity,
        session: &Digest,
        now: Now,
    ) -> StoreResult<Linked>;

    /// Removes an account's identity of an issuer, unless it is the only way to sign in.
    async fn unlink_identity(&self, account: &AccountId, issuer: &str) -> StoreResult<Unlinked>;

    /// Removes somebody's identity of an issuer, even if it is the only way to sign in. Also ends the
    /// account's sessions, and writes the removal to the log. `false` if the account has no identity of this
    /// issuer.
    async fn take_identity(
        &self,
        account: &AccountName,
        issuer: &str,
        why: &Reason,
        who: &str,
        now: Now,
    ) -> StoreResult<bool>;

    /// Stores that a browser was sent to the provider.
    async fn add_openid_sign_in(
        &self,
        secret: &Digest,
        sign_in: &OpenIdSignIn,
        now: Now,
        expires: i64,
    ) -> StoreResult<()>;

    /// Why a browser was sent to the provider. Only the first call gets the answer.
    async fn take_openid_sign_in(&self, secret: &Digest, now: Now) -> StoreResult<Option<OpenIdSignIn>>;

    /// Stores that somebody must choose a name.
    async fn add_openid_sign_up(
        &self,
        secret: &Digest,
        sign_up: &OpenIdSignUp,
        now: Now,
        expires: i64,
    ) -> StoreResult<()>;

    /// The person who must choose a name; `None` if there is none.
    async fn openid_sign_up(&self, secret: &Digest, now: Now) -> StoreResult<Option<OpenIdSignUp>>;

    /// Makes the account of a person who has chosen a name, and links the identity to it. If the account is
    /// made, the same transaction uses up the sign-up and its invitation.
    async fn create_account_by_openid(
        &self,
        secret: &Digest,
        account: &NewAccount,
        now: Now,
    ) -> StoreResult<SignedUp>;
}
