//! Links that work once. With one, an account can be made or a password chosen.

use std::time::Duration;

use diode_core::ids::AccountId;

use super::Policy;
use super::secret::Secret;
use crate::mail::EmailAddress;
use crate::store::{AccountStore, LinkFor, Now};

const HOUR: u64 = 60 * 60;

/// Long enough for a mail to be read.
const INVITATION_LASTS: Duration = Duration::from_secs(7 * 24 * HOUR);
/// Shorter, because it opens an account that exists.
const PASSWORD_LASTS: Duration = Duration::from_secs(24 * HOUR);

/// A mail is read at once by whoever has asked for it. As long as the mails of an account are counted, so that
/// a stranger who has used them up leaves its owner with a link that works.
pub(super) const MAILED_PASSWORD_LASTS: Duration = Duration::from_secs(HOUR);
/// It opens nothing by itself.
const EMAIL_LASTS: Duration = Duration::from_secs(24 * HOUR);

/// A link, and until when it works.
#[derive(Debug)]
pub struct Link {
    pub url: String,
    pub expires: jiff::Timestamp,
}

/// The link for the first account of a server, an administrator.
pub async fn first_account_link(store: &dyn AccountStore, policy: &Policy) -> anyhow::Result<Link> {
    make(store, policy, &LinkFor::FirstAccount).await
}

/// A link by which one account can be made.
pub async fn invitation_link(store: &dyn AccountStore, policy: &Policy) -> anyhow::Result<Link> {
    make(store, policy, &LinkFor::Account).await
}

/// A link to choose the password of an account.
pub async fn password_link(
    store: &dyn AccountStore,
    policy: &Policy,
    account: AccountId,
) -> anyhow::Result<Link> {
    make(store, policy, &LinkFor::Password(account)).await
}

/// The same, for the address of the account.
pub(crate) async fn mailed_password_link(
    store: &dyn AccountStore,
    policy: &Policy,
    account: AccountId,
    email: EmailAddress,
) -> anyhow::Result<Link> {
    make(store, policy, &LinkFor::MailedPassword(account, email)).await
}

/// For showing that mails to an address arrive.
pub(crate) async fn email_link(
    store: &dyn AccountStore,
    policy: &Policy,
    account: AccountId,
    email: EmailAddress,
) -> anyhow::Result<Link> {
    make(store, policy, &LinkFor::Email(account, email)).await
}

async fn make(store: &dyn AccountStore, policy: &Policy, link: &LinkFor) -> anyhow::Result<Link> {
    let (page, lasts) = match link {
        LinkFor::FirstAccount | LinkFor::Account => ("sign-up?invitation", INVITATION_LASTS),
        LinkFor::Password(_) => ("password?link", PASSWORD_LASTS),
        LinkFor::MailedPassword(..) => ("password?link", MAILED_PASSWORD_LASTS),
        LinkFor::Email(..) => ("account/email?link", EMAIL_LASTS),
    };
    let (secret, now) = (Secret::draw("")?, Now::read());
    let expires = now.lease_end(lasts);
    store.add_link(&secret.digest(), link, now, expires).await?;
    let url = format!("{}/{page}={}", policy.public_url, secret.into_text());
    Ok(Link { url, expires: jiff::Timestamp::from_millisecond(expires)? })
}
