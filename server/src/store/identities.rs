//! What the rest of the server may ask of the store about signing in by an OpenID Connect provider.
//!
//! Every secret arrives here as its [`Digest`]. An expired row counts as absent.

use diode_core::ids::{AccountId, Digest};

use super::accounts::Created;

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
