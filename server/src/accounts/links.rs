//! Links that work once. With a link, somebody makes an account or chooses a password.

use std::time::Duration;

use diode_core::ids::AccountId;

use super::Policy;
use super::secret::Secret;
use crate::store::{LinkFor, Now, Store};

const HOUR: u64 = 60 * 60;

/// How long an invitation works: long enough for whoever is invited to read it.
const INVITATION_LASTS: Duration = Duration::from_secs(7 * 24 * HOUR);
/// Shorter than an invitation, because this link opens an account that exists.
const PASSWORD_LASTS: Duration = Duration::from_secs(24 * HOUR);

/// A link, and when it expires.
#[derive(Debug)]
pub struct Link {
    pub url: String,
    pub expires: jiff::Timestamp,
}

/// The link for the first account of a server, which is an administrator's.
pub async fn first_account_link(store: &Store, policy: &Policy) -> anyhow::Result<Link> {
    make(store, policy, &LinkFor::FirstAccount).await
}

/// A link to make one account.
pub async fn invitation_link(store: &Store, policy: &Policy) -> anyhow::Result<Link> {
    make(store, policy, &LinkFor::Account).await
}

/// A link to choose the password of an account.
pub async fn password_link(store: &Store, policy: &Policy, account: AccountId) -> anyhow::Result<Link> {
    make(store, policy, &LinkFor::Password(account)).await
}

async fn make(store: &Store, policy: &Policy, link: &LinkFor) -> anyhow::Result<Link> {
    let (page, lasts) = match link {
        LinkFor::FirstAccount | LinkFor::Account => ("sign-up?invitation", INVITATION_LASTS),
        LinkFor::Password(_) => ("password?link", PASSWORD_LASTS),
    };
    let (secret, now) = (Secret::draw("")?, Now::read());
    let expires = now.lease_end(lasts);
    store.add_link(&secret.digest(), link, now, expires).await?;
    let url = format!("{}/{page}={}", policy.public_url, secret.into_text());
    Ok(Link { url, expires: jiff::Timestamp::from_millisecond(expires)? })
}
