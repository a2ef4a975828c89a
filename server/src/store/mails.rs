//! Mails that wait to be sent.

use std::time::Duration;

use async_trait::async_trait;
use diode_core::ids::{AccountId, AccountName};

use super::error::StoreResult;
use super::types::Now;
use crate::mail::EmailAddress;

/// The most mails that may wait, for instance while the mail server is away.
pub const MAX_WAITING_MAILS: u32 = 1000;

/// How long a claim of a mail lasts. If the server has not stored a result by then, another server takes the mail.
/// A claim lasts longer than one try to send the mail, including the writes to the database, which may have to
/// wait.
pub const MAIL_LEASE: Duration = Duration::from_secs(180);

const HOUR: u64 = 60 * 60;

/// What a mail is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MailKind {
    /// Has a link to choose a new password.
    NewPassword,
    /// Has a link to confirm the address.
    Confirmation,
    /// Says that the address no longer belongs to the account.
    AddressTakenOff,
}

impl MailKind {
    /// How long sending is tried. A mail with a link is tried as long as its link works, since nobody waits
    /// longer.
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
    /// When the mail is given up, in milliseconds since 1970.
    pub expires: i64,
    /// The number of this claim. Only the latest claim of a mail is valid.
    pub attempt: u64,
}

/// What the database stores about mails. Every method is one transaction.
///
/// A mail is deleted with its account. A mail with a link is also deleted when earlier links of the account end.
#[async_trait]
pub trait MailStore: Send + Sync {
    /// Queues a mail; `false` if [`MAX_WAITING_MAILS`] wait already.
    async fn add_mail(
        &self,
        kind: MailKind,
        account: &AccountId,
        to: &EmailAddress,
        now: Now,
    ) -> StoreResult<bool>;

    /// Gives the caller the mail that has been due for the longest time; `None` if none is due. No other caller
    /// gets the same mail within [`MAIL_LEASE`]. A mail that must be given up is claimed in the same way.
    async fn claim_mail(&self, now: Now) -> StoreResult<Option<ClaimedMail>>;

    /// Puts a claimed mail back for its next try, at `until` in milliseconds since 1970. `false` if the claim was
    /// lost.
    async fn postpone_mail(&self, mail: &ClaimedMail, until: i64) -> StoreResult<bool>;

    /// Removes a claimed mail that was sent or given up. `false` if the claim was lost.
    async fn remove_mail(&self, mail: &ClaimedMail) -> StoreResult<bool>;
}
