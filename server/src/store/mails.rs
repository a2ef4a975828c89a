//! Mails that wait to be sent, in domain words.

use std::time::Duration;

use async_trait::async_trait;
use diode_core::ids::{AccountId, AccountName};

use super::error::StoreResult;
use super::types::Now;
use crate::mail::EmailAddress;

/// Mails that wait at most, while the mail server is away.
pub const MAX_WAITING_MAILS: u32 = 1000;

/// A server that has not told what became of a mail for this long is taken for dead. Longer than a try, with the
/// writes before and after it, which may wait for others.
pub const MAIL_LEASE: Duration = Duration::from_secs(180);

const HOUR: u64 = 60 * 60;

/// What a mail says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailKind {
    /// By which link a new password is chosen.
    NewPassword,
    /// By which link the address is confirmed.
    Confirmation,
    /// That the address is the account's no longer.
    AddressTakenOff,
}

impl MailKind {
    /// How long it is tried to send one. Nobody waits longer for a link that lasts so long.
    pub fn tried_for(self) -> Duration {
        match self {
            Self::NewPassword => Duration::from_secs(HOUR),
            Self::Confirmation | Self::AddressTakenOff => Duration::from_secs(24 * HOUR),
        }
    }
}

/// A mail that the caller may send until its claim ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedMail {
    pub position: i64,
    pub kind: MailKind,
    pub account: AccountId,
    pub name: AccountName,
    pub to: EmailAddress,
    /// In milliseconds since 1970.
    pub asked_at: i64,
    /// When it is given up, in milliseconds since 1970.
    pub expires: i64,
    /// Which claim of this mail it is; only the latest one is valid.
    pub attempt: u64,
}

/// What the database keeps of mails. Every method is one transaction.
///
/// A mail goes with its account, and one with a link also goes when the links that were sent before end.
#[async_trait]
pub trait MailStore: Send + Sync {
    /// Has a mail wait to be sent; `false` if [`MAX_WAITING_MAILS`] do already.
    async fn add_mail(
        &self,
        kind: MailKind,
        account: &AccountId,
        to: &EmailAddress,
        now: Now,
    ) -> StoreResult<bool>;

    /// Gives the mail that is due longest to the caller; `None` if none is due. No two callers get the same mail
    /// within [`MAIL_LEASE`]. One that is to be given up is claimed like others.
    async fn claim_mail(&self, now: Now) -> StoreResult<Option<ClaimedMail>>;

    /// Has a claimed mail wait for its next try, at this time in milliseconds since 1970. `false` if the claim has
    /// been lost.
    async fn postpone_mail(&self, mail: &ClaimedMail, until: i64) -> StoreResult<bool>;

    /// Removes a claimed mail that was sent or is given up. `false` if the claim has been lost.
    async fn remove_mail(&self, mail: &ClaimedMail) -> StoreResult<bool>;
}
