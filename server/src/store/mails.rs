//! Mails that wait to be sent.

use std::time::Duration;

use diode_core::ids::{AccountId, AccountName};

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
