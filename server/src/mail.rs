//! Mails to people who have an account, such as a link for a new password.
//!
//! No request waits for a mail server. Mails wait in the database, and one of the running servers sends them in
//! the background. That server tries again if the mail server is away. The link in a mail is drawn when the mail
//! is sent.

mod address;
mod failure;
mod letter;
mod mailer;
// Without the feature, settings that name a mail server are refused when the server starts.
#[cfg_attr(not(feature = "mail"), path = "absent.rs")]
mod transport;

pub use address::EmailAddress;
pub use failure::Failure;
pub use letter::Letter;
pub use mailer::{Mailer, Tries};
