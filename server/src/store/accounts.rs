//! What the rest of the server may ask of the store about accounts.
//!
//! Every secret arrives here as its [`Digest`]. An expired row counts as absent.

use std::time::Duration;

use diode_api::{Account, Scope};
use diode_core::ids::{AccountId, AccountName, Digest, TokenId};

/// The longest time for which tries are counted.
pub const LONGEST_WINDOW: Duration = Duration::from_secs(24 * 3600);

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
