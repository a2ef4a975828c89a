use diode_core::ids::AccountName;

use super::EmailAddress;
use crate::accounts::Link;

/// The content of a mail: plain text in ASCII. It may have a secret link, so it has no `Debug`, which could show it
/// in logs.
#[derive(Clone)]
pub struct Letter {
    pub to: EmailAddress,
    pub subject: String,
    pub text: String,
}

impl Letter {
    /// A letter with a link to choose a password.
    pub(crate) fn new_password(
        to: EmailAddress,
        account: &AccountName,
        public_url: &str,
        link: &Link,
    ) -> Self {
        let text = format!(
            "Somebody, probably you, asked for a new password of the account {account} on\n{public_url}\n\n\
             Choose it here; the link works once, until {until}:\n\n{url}\n\n\
             All sessions of the account end then, and it is unlinked from every provider.\n\
             If it was not you, do nothing, and nothing changes.\n",
            until = until(link),
            url = link.url,
        );
        Self { to, subject: format!("A new password for {account} on Diode"), text }
    }

    /// A letter with a link. By following the link, its reader shows that mails to this address arrive.
    pub(crate) fn confirmation(
        to: EmailAddress,
        account: &AccountName,
        public_url: &str,
        link: &Link,
    ) -> Self {
        let text = format!(
            "Somebody, probably you, gave this address for the account {account} on\n{public_url}\n\n\
             Confirm it here, signed in; the link works once, until {until}:\n\n{url}\n\n\
             It is used for links by which you choose a new password if yours is lost, and to tell you\n\
             when it is replaced. If it was not you, do nothing, and the server forgets the address.\n",
            until = until(link),
            url = link.url,
        );
        Self { to, subject: format!("Confirm your address for {account} on Diode"), text }
    }

    /// A letter to an address that no longer belongs to the account.
    pub(crate) fn address_taken_off(to: EmailAddress, account: &AccountName, public_url: &str) -> Self {
        let text = format!(
            "This address was that of the account {account} on\n{public_url}\n\n\
             It was taken off or replaced by another one. If that was not you, tell whoever runs this server:\n\
             somebody may know your password.\n"
        );
        Self { to, subject: format!("Your address was taken off {account} on Diode"), text }
    }
}

fn until(link: &Link) -> impl std::fmt::Display + use<> {
    link.expires.strftime("%F %R UTC").to_string()
}
