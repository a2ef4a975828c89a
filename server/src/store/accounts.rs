//! Accounts in domain words: what the rest of the server may ask of the store about them.
//!
//! Every secret arrives here as its [`Digest`]. What has expired is as good as absent.

use std::time::Duration;

use async_trait::async_trait;
use diode_core::api::{Account, Scope, Token, Uploads};
use diode_core::ids::{AccountId, AccountName, Digest, TokenId};

use super::error::StoreResult;
use super::types::Now;
use crate::blobs::BlobKey;
use crate::mail::EmailAddress;

/// Tries are counted for this long at most.
pub const LONGEST_WINDOW: Duration = Duration::from_secs(24 * 3600);

/// A mail for each of them is sent at once.
pub const MAX_ACCOUNTS_OF_ADDRESS: u32 = 5;

/// An account on its way into the store.
#[derive(Debug, Clone)]
pub struct NewAccount {
    pub id: AccountId,
    pub name: AccountName,
    /// As a PHC string; `None` if the owner is to choose one by a link.
    pub password: Option<String>,
    pub admin: bool,
    /// The version of the terms of contributing that its owner agrees to.
    pub terms: Option<u32>,
}

/// What signing in needs to know of an account.
#[derive(Debug, Clone)]
pub struct Credentials {
    pub account: Account,
    pub password: Option<String>,
    pub disabled: bool,
    /// Where a link for a new password may be sent.
    pub email: Option<EmailAddress>,
}

/// Whether an account could be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created {
    Done(Account),
    NameTaken,
    /// The invitation has been used, has expired or never existed.
    NoLink,
}

/// What a one-time link is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkFor {
    /// Making the first account of a server, which may look after it. Works as long as there is none.
    FirstAccount,
    /// Making an account.
    Account,
    /// Choosing the password of an account. Whoever runs the server has made it.
    Password(AccountId),
    /// The same, sent to the address of the account. Works as long as the account has this address.
    MailedPassword(AccountId, EmailAddress),
    /// Giving an account this address, to which the link was sent.
    Email(AccountId, EmailAddress),
}

/// A token on its way into the store.
#[derive(Debug, Clone)]
pub struct NewTokenRow {
    pub id: TokenId,
    pub secret: Digest,
    pub account: AccountId,
    pub name: String,
    pub scopes: Vec<Scope>,
    /// In milliseconds since 1970.
    pub expires: i64,
}

/// A password that was chosen by a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PasswordReset {
    /// Whose it is.
    pub account: AccountName,
    /// The issuers whose identities were taken off the account.
    pub unlinked: Vec<String>,
    /// Whether an address for mails was taken off the account.
    pub without_email: bool,
}

/// A program that waits to be allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingDevice {
    pub secret: Digest,
    pub user_code: String,
    pub name: String,
    pub scopes: Vec<Scope>,
}

/// How far a waiting program is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceAnswer {
    /// Expired, refused, answered before, or never asked.
    Unknown,
    Waiting,
    /// The account has allowed it. Only one question gets this answer.
    Allowed(Box<Account>, WaitingDevice),
}

/// How often something was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tries {
    pub count: u64,
    /// When the first of them was, in milliseconds since 1970.
    pub since: i64,
}

/// What the database keeps of accounts. Every method is one transaction.
#[async_trait]
pub trait AccountStore: Send + Sync {
    /// Makes an account. With `link`, uses up this invitation in the same transaction; one for the
    /// first account makes it an administrator.
    async fn create_account(
        &self,
        account: &NewAccount,
        link: Option<&Digest>,
        now: Now,
    ) -> StoreResult<Created>;

    /// An account, to check a password by; `None` if there is none of this name.
    async fn credentials(&self, name: &AccountName) -> StoreResult<Option<Credentials>>;

    /// An account; `None` if it is gone.
    async fn account(&self, id: &AccountId) -> StoreResult<Option<Account>>;

    /// All accounts, by name; for operators.
    async fn accounts(&self) -> StoreResult<Vec<Credentials>>;

    /// Notes that an account agrees to a version of the terms of contributing. The first time counts.
    async fn agree(&self, account: &AccountId, terms: u32, now: Now) -> StoreResult<()>;

    /// Whether there is no account yet.
    async fn has_no_accounts(&self) -> StoreResult<bool>;

    /// Replaces the password and ends every session but `kept`.
    async fn set_password(&self, account: &AccountId, hash: &str, kept: Option<&Digest>) -> StoreResult<()>;

    /// Uses up a link and sets the password of its account. Its sessions end, and its identities are taken off:
    /// whoever had the old password may have linked them. So is its address, unless the link was sent there.
    /// `None` if there is no such link.
    async fn set_password_by_link(
        &self,
        link: &Digest,
        hash: &str,
        now: Now,
    ) -> StoreResult<Option<PasswordReset>>;

    /// The accounts with an address, at most [`MAX_ACCOUNTS_OF_ADDRESS`] of them.
    async fn accounts_of_email(&self, email: &EmailAddress) -> StoreResult<Vec<Credentials>>;

    /// Uses up a link that was sent to an address, and gives the address to its account, which must be this
    /// one. With `tells`, a mail to the one that the account had before waits then. Returns the address; `None` if
    /// there is no such link.
    async fn confirm_email(
        &self,
        link: &Digest,
        account: &AccountId,
        tells: bool,
        now: Now,
    ) -> StoreResult<Option<EmailAddress>>;

    /// Takes the address off an account, with the links that were sent to it. With `tells`, a mail to it waits
    /// then. Returns the address.
    async fn remove_email(
        &self,
        account: &AccountId,
        tells: bool,
        now: Now,
    ) -> StoreResult<Option<EmailAddress>>;

    /// Disables an account, ending its sessions and keeping its tokens from working, or enables it again.
    async fn set_disabled(&self, account: &AccountId, disabled: bool, now: Now) -> StoreResult<()>;

    /// Deletes an account with its sessions and tokens. With [`Uploads::Delete`], its uploads too, and
    /// the board entries are recomputed. Models that it has contributed go along, but those that are among the
    /// server's stay if its uploads do. Returns files that no row names any more.
    async fn delete_account(&self, account: &AccountId, uploads: Uploads) -> StoreResult<Vec<BlobKey>>;

    /// Begins a session.
    async fn add_session(
        &self,
        secret: &Digest,
        account: &AccountId,
        now: Now,
        expires: i64,
    ) -> StoreResult<()>;

    /// Whose session it is; `None` if it has ended or the account is disabled.
    async fn session(&self, secret: &Digest, now: Now) -> StoreResult<Option<Account>>;

    /// When a session ends, in milliseconds since 1970; `None` if there is none.
    async fn session_end(&self, secret: &Digest) -> StoreResult<Option<i64>>;

    /// Ends a session, if there is one.
    async fn end_session(&self, secret: &Digest) -> StoreResult<()>;

    /// Adds a one-time link.
    async fn add_link(&self, secret: &Digest, link: &LinkFor, now: Now, expires: i64) -> StoreResult<()>;

    /// What a link is for; looking does not use it up.
    async fn link(&self, secret: &Digest, now: Now) -> StoreResult<Option<LinkFor>>;

    /// Adds an API token.
    async fn add_token(&self, token: &NewTokenRow, now: Now) -> StoreResult<Token>;

    /// The tokens of an account, newest first, also expired ones.
    async fn tokens(&self, account: &AccountId) -> StoreResult<Vec<Token>>;

    /// Whose token it is, and notes that it was used; `None` if it does not work.
    async fn use_token(&self, secret: &Digest, now: Now) -> StoreResult<Option<(Account, Token)>>;

    /// Deletes a token of an account; `false` if it has none by this id.
    async fn revoke_token(&self, account: &AccountId, token: &TokenId) -> StoreResult<bool>;

    /// A program begins to wait.
    async fn add_device(&self, device: &WaitingDevice, now: Now, expires: i64) -> StoreResult<()>;

    /// The program that shows this code, unless it has been allowed already.
    async fn waiting_device(&self, user_code: &str, now: Now) -> StoreResult<Option<WaitingDevice>>;

    /// Allows or, without an account, refuses a waiting program; `false` if none waits.
    async fn answer_device(
        &self,
        user_code: &str,
        account: Option<&AccountId>,
        now: Now,
    ) -> StoreResult<bool>;

    /// How far a waiting program is. Once it is allowed, it is forgotten here.
    async fn poll_device(&self, secret: &Digest, now: Now) -> StoreResult<DeviceAnswer>;

    /// Counts one more try of a subject. If the first lies before `since`, it is forgotten with those that
    /// followed, and this one is the first. `since` lies within [`LONGEST_WINDOW`].
    async fn count_attempt(&self, subject: &str, since: i64, now: Now) -> StoreResult<Tries>;

    /// Forgets the tries of a subject.
    async fn forget_attempts(&self, subject: &str) -> StoreResult<()>;
}
