//! What the rest of the server may ask of the store about accounts.
//!
//! Every secret arrives here as its [`Digest`]. An expired row counts as absent.

use std::time::Duration;

use async_trait::async_trait;
use diode_api::{Account, Scope, Token, Uploads};
use diode_core::ids::{AccountId, AccountName, Digest, TokenId};

use super::error::StoreResult;
use super::types::Now;
use crate::blobs::BlobKey;
use crate::mail::EmailAddress;

/// The longest time for which tries are counted.
pub const LONGEST_WINDOW: Duration = Duration::from_secs(24 * 3600);

/// At most this many accounts of one address get a link for a new password. Few, because all these mails are sent
/// at once.
pub const MAX_ACCOUNTS_OF_ADDRESS: u32 = 5;

/// A new account.
#[derive(Debug, Clone)]
pub struct NewAccount {
    pub id: AccountId,
    pub name: AccountName,
    /// The password's hash as a PHC string; `None` if the owner will choose a password by a link.
    pub password: Option<String>,
    pub admin: bool,
    /// The version of the terms of contributing that the owner agrees to.
    pub terms: Option<u32>,
}

/// What a sign-in needs of an account.
#[derive(Debug, Clone)]
pub struct Credentials {
    pub account: Account,
    pub password: Option<String>,
    pub disabled: bool,
    /// The address that a link for a new password may be sent to.
    pub email: Option<EmailAddress>,
}

/// Whether an account was made.
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
    /// To make the first account of a server, which is an administrator's. Works as long as there is no account.
    FirstAccount,
    /// To make an account.
    Account,
    /// To choose the password of an account. Whoever runs the server made the link.
    Password(AccountId),
    /// To choose the password, by a link that was mailed. Works as long as the account has this address.
    MailedPassword(AccountId, EmailAddress),
    /// To give an account the address that the link was sent to.
    Email(AccountId, EmailAddress),
}

/// A new token.
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

/// The result of choosing a password by a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PasswordReset {
    /// The account whose password was chosen.
    pub account: AccountName,
    /// The issuers of the identities that the account has lost.
    pub unlinked: Vec<String>,
    /// Whether the account has lost its e-mail address.
    pub without_email: bool,
}

/// A program that waits for its user to allow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingDevice {
    pub secret: Digest,
    pub user_code: String,
    pub name: String,
    pub scopes: Vec<Scope>,
}

/// The state of a waiting program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceAnswer {
    /// The request has expired, was refused or answered, or never existed.
    Unknown,
    Waiting,
    /// The account has allowed the program. Only one poll gets this answer.
    Allowed(Box<Account>, WaitingDevice),
}

/// How often something was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tries {
    pub count: u64,
    /// The time of the first try, in milliseconds since 1970.
    pub since: i64,
}

/// What the database keeps of accounts. Every method is one transaction.
#[async_trait]
pub trait AccountStore: Send + Sync {
    /// Makes an account. With `link`, uses up this invitation in the same transaction. An invitation for the first
    /// account makes an administrator.
    async fn create_account(
        &self,
        account: &NewAccount,
        link: Option<&Digest>,
        now: Now,
    ) -> StoreResult<Created>;

    /// The account with this name, and its password hash; `None` if there is no such account.
    async fn credentials(&self, name: &AccountName) -> StoreResult<Option<Credentials>>;

    /// An account; `None` if it no longer exists.
    async fn account(&self, id: &AccountId) -> StoreResult<Option<Account>>;

    /// All accounts, by name, for operators.
    async fn accounts(&self) -> StoreResult<Vec<Credentials>>;

    /// Stores that an account agrees to a version of the terms of contributing. Later agreements to the same
    /// version change nothing.
    async fn agree(&self, account: &AccountId, terms: u32, now: Now) -> StoreResult<()>;

    /// Whether there is no account yet.
    async fn has_no_accounts(&self) -> StoreResult<bool>;

    /// Replaces the password and ends every session except `kept`.
    async fn set_password(&self, account: &AccountId, hash: &str, kept: Option<&Digest>) -> StoreResult<()>;

    /// Uses up a link and sets the password of its account. Ends the account's sessions and removes its
    /// identities, because somebody with the old password may have linked them. Also removes the account's e-mail
    /// address, unless the link was sent to it. `None` if there is no such link.
    async fn set_password_by_link(
        &self,
        link: &Digest,
        hash: &str,
        now: Now,
    ) -> StoreResult<Option<PasswordReset>>;

    /// The accounts with this address, at most [`MAX_ACCOUNTS_OF_ADDRESS`].
    async fn accounts_of_email(&self, email: &EmailAddress) -> StoreResult<Vec<Credentials>>;

    /// Uses up a link that was sent to an address, and gives the address to `account`. The link must have been
    /// made for this account. With `tells`, also queues a mail to the previous address. Returns the new address;
    /// `None` if there is no such link.
    async fn confirm_email(
        &self,
        link: &Digest,
        account: &AccountId,
        tells: bool,
        now: Now,
    ) -> StoreResult<Option<EmailAddress>>;

    /// Removes the address of an account, and the links that were sent to it. With `tells`, also queues a mail to
    /// the address. Returns the address.
    async fn remove_email(
        &self,
        account: &AccountId,
        tells: bool,
        now: Now,
    ) -> StoreResult<Option<EmailAddress>>;

    /// Disables an account, or enables it again. Disabling ends its sessions, and its tokens do not work
    /// meanwhile.
    async fn set_disabled(&self, account: &AccountId, disabled: bool, now: Now) -> StoreResult<()>;

    /// Deletes an account with its sessions and tokens. With [`Uploads::Delete`], also deletes its uploads and
    /// recomputes board entries. The models that it contributed are deleted, too; accepted models stay if the
    /// uploads stay. Returns the files that no row names any more.
    async fn delete_account(&self, account: &AccountId, uploads: Uploads) -> StoreResult<Vec<BlobKey>>;

    /// Begins a session.
    async fn add_session(
        &self,
        secret: &Digest,
        account: &AccountId,
        now: Now,
        expires: i64,
    ) -> StoreResult<()>;

    /// The account of a session; `None` if the session has ended or the account is disabled.
    async fn session(&self, secret: &Digest, now: Now) -> StoreResult<Option<Account>>;

    /// When a session ends, in milliseconds since 1970; `None` if there is none.
    async fn session_end(&self, secret: &Digest) -> StoreResult<Option<i64>>;

    /// Ends a session, if there is one.
    async fn end_session(&self, secret: &Digest) -> StoreResult<()>;

    /// Adds a one-time link.
    async fn add_link(&self, secret: &Digest, link: &LinkFor, now: Now, expires: i64) -> StoreResult<()>;

    /// What a link is for. Does not use it up.
    async fn link(&self, secret: &Digest, now: Now) -> StoreResult<Option<LinkFor>>;

    /// Adds an API token.
    async fn add_token(&self, token: &NewTokenRow, now: Now) -> StoreResult<Token>;

    /// The tokens of an account, including expired ones, the newest first.
    async fn tokens(&self, account: &AccountId) -> StoreResult<Vec<Token>>;

    /// The account of a token. Marks the token as used now. `None` if the token does not work.
    async fn use_token(&self, secret: &Digest, now: Now) -> StoreResult<Option<(Account, Token)>>;

    /// Deletes a token of an account; `false` if the account has no token with this id.
    async fn revoke_token(&self, account: &AccountId, token: &TokenId) -> StoreResult<bool>;

    /// Adds a program that waits.
    async fn add_device(&self, device: &WaitingDevice, now: Now, expires: i64) -> StoreResult<()>;

    /// The program that shows this code, unless it has been allowed already.
    async fn waiting_device(&self, user_code: &str, now: Now) -> StoreResult<Option<WaitingDevice>>;

    /// Allows a waiting program or, without an account, refuses it. `false` if no program waits.
    async fn answer_device(
        &self,
        user_code: &str,
        account: Option<&AccountId>,
        now: Now,
    ) -> StoreResult<bool>;

    /// The state of a waiting program. An allowed program is deleted, so only one poll sees it.
    async fn poll_device(&self, secret: &Digest, now: Now) -> StoreResult<DeviceAnswer>;

    /// Counts one more try of a subject. If the first counted try lies before `since`, the count begins anew with
    /// this try. `since` lies within [`LONGEST_WINDOW`].
    async fn count_attempt(&self, subject: &str, since: i64, now: Now) -> StoreResult<Tries>;

    /// Deletes the tries of a subject.
    async fn forget_attempts(&self, subject: &str) -> StoreResult<()>;
}
