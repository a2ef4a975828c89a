//! Links that work once. With a link, somebody makes an account or chooses a password.

use std::time::Duration;

use diode_api::{Account, IssuedToken, NewToken, Scope};
use diode_core::ids::{AccountId, Digest, LeaseId, TokenId};

use crate::accounts::Policy;
use crate::app::App;
use crate::http::{ApiFault, ApiResult};
use crate::store::{LinkFor, NewTokenRow, Now, Store};

/// The start of every API token, by which people and scanners recognise a token.
pub(crate) const TOKEN_PREFIX: &str = "diode_";

/// 256 random bits as text. It is shown once; only its digest is stored. The digest needs no salt, because
/// nobody can guess the secret.
#[derive(Clone)]
pub(super) struct Secret(String);

impl Secret {
    /// Draws a secret that begins with `prefix`.
    pub(super) fn draw(prefix: &str) -> Result<Self, getrandom::Error> {
        Ok(Self(format!("{prefix}{}", base16ct::lower::encode_string(&random()?))))
    }

    pub(super) fn digest(&self) -> Digest {
        Digest::of(self.0.as_bytes())
    }

    pub(super) fn into_text(self) -> String {
        self.0
    }
}

/// The digest under which a given secret would be stored.
pub(super) fn digest_of(text: &str) -> Digest {
    Digest::of(text.as_bytes())
}

pub(crate) fn new_account_id() -> Result<AccountId, getrandom::Error> {
    Ok(AccountId::of(&random()?))
}

pub(crate) fn new_lease_id() -> Result<LeaseId, getrandom::Error> {
    Ok(LeaseId::of(&random()?))
}

pub(super) fn new_token_id() -> Result<TokenId, getrandom::Error> {
    Ok(TokenId::of(&random()?))
}

/// Random bytes from the operating system.
pub(super) fn random() -> Result<[u8; 32], getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

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

/// An account with more tokens than this has a program that asks for a new token each time.
pub(crate) const MAX_TOKENS: usize = 100;

/// Makes a token of an account.
pub(crate) async fn issue(app: &App, account: &Account, request: NewToken) -> ApiResult<IssuedToken> {
    let days = request.check()?;
    check_scopes(account, &request.scopes)?;
    let now = Now::read();
    if app.backend.store.tokens(&account.id).await?.len() >= MAX_TOKENS {
        return Err(ApiFault::refused(format!(
            "this account has {MAX_TOKENS} tokens already; revoke some that are no longer used"
        )));
    }
    let secret = Secret::draw(TOKEN_PREFIX).map_err(ApiFault::internal)?;
    let row = NewTokenRow {
        id: new_token_id().map_err(ApiFault::internal)?,
        secret: secret.digest(),
        account: account.id.clone(),
        name: request.name,
        scopes: request.scopes,
        expires: now.lease_end(Duration::from_secs(u64::from(days) * 24 * 60 * 60)),
    };
    let token = app.backend.store.add_token(&row, now).await?;
    Ok(IssuedToken { secret: secret.into_text(), token })
}

/// A token may do no more than its owner.
pub(super) fn check_scopes(account: &Account, scopes: &[Scope]) -> ApiResult<()> {
    if scopes.contains(&Scope::Admin) && !account.admin {
        return Err(ApiFault::forbidden(
            "scope `admin`: only an administrator of this server can give it to a token",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod secret_tests {
    use super::*;

    #[test]
    fn secrets_differ_and_are_not_shown() {
        let (a, b) = (Secret::draw("diode_").unwrap(), Secret::draw("diode_").unwrap());
        assert_ne!(a.digest(), b.digest());
        assert_eq!(format!("{a:?}"), "Secret(…)");
        let text = a.into_text();
        assert!(text.starts_with("diode_") && text.len() == 6 + 64, "{text}");
    }
}
