//! Accounts and their sessions: signing up, in and out, what an owner must confirm, and the cookies that hold secrets.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue};
use diode_api::{Account, Password, SignIn, SignUp, Uploads};
use diode_core::ids::{AccountName, Digest};
use headers::{Cookie, HeaderMapExt as _};

use crate::accounts::secrets::{Secret, digest_of, new_account_id};
use crate::accounts::terms::check;
use crate::accounts::{Needed, Peer, Policy, SignUps, SignedIn};
use crate::admin::acts::LAST_ADMINISTRATOR;
use crate::app::App;
use crate::http::{ApiFault, ApiResult};
use crate::limits::{Rate, admit};
use crate::store::{Created, LONGEST_WINDOW, LinkFor, NewAccount, Now, PasswordReset};

/// Begins a session. Returns the account, and the header that makes the browser keep the session.
pub(crate) async fn sign_in(
    app: &App,
    peer: &Peer,
    headers: &HeaderMap,
    request: SignIn,
) -> ApiResult<(Account, HeaderValue)> {
    let account = account_by_password(app, peer, &request.name, request.password).await?;
    let cookie = begin_session(app, headers, &account).await?;
    Ok((account, cookie))
}

/// The account with a name and a password. A wrong name gets the same answer as a wrong password, after the
/// same work.
pub(super) async fn account_by_password(
    app: &App,
    peer: &Peer,
    name: &AccountName,
    password: Password,
) -> ApiResult<Account> {
    let subject = format!("sign-in of {name} from {}", peer.0);
    admit(app, &format!("sign-ins from {}", peer.0), &SIGN_INS_OF_ADDRESS).await?;
    admit(app, &subject, &SIGN_IN).await?;
    let found = app.backend.store.credentials(name).await?;
    let hash = found.as_ref().and_then(|found| found.password.clone());
    let fits = app.passwords.fits(password, hash).await?;
    let Some(found) = found.filter(|_| fits) else {
        return Err(ApiFault::unauthorized("the name or the password is wrong"));
    };
    app.backend.store.forget_attempts(&subject).await?;
    if found.disabled {
        return Err(ApiFault::forbidden("this account is disabled; ask whoever runs this server"));
    }
    Ok(found.account)
}

/// Begins a session with a new secret. So a secret that somebody else has put into the browser is of no use.
pub(super) async fn begin_session(
    app: &App,
    headers: &HeaderMap,
    account: &Account,
) -> ApiResult<HeaderValue> {
    if let Some(earlier) = SESSION.read(headers, app.policy()) {
        app.backend.store.end_session(&digest_of(&earlier)).await?;
    }
    let (secret, now) = (Secret::draw("").map_err(ApiFault::internal)?, Now::read());
    let digest = secret.digest();
    app.backend.store.add_session(&digest, &account.id, now, now.lease_end(SESSION.lasts)).await?;
    SESSION.keep(secret, app.policy())
}

/// Ends a session. Returns the header that makes the browser forget the session.
pub(crate) async fn sign_out(app: &App, session: &Digest) -> ApiResult<HeaderValue> {
    app.backend.store.end_session(session).await?;
    SESSION.forget(app.policy())
}

/// Makes an account and begins a session of it.
pub(crate) async fn sign_up(
    app: &App,
    peer: &Peer,
    headers: &HeaderMap,
    request: SignUp,
) -> ApiResult<(Account, HeaderValue)> {
    let SignUp { name, password, invitation, terms } = request;
    if let Some(version) = terms {
        check(app.policy(), "terms", version, Needed::Current)?;
    }
    if invitation.is_none() {
        admits_strangers(app.policy())?;
    }
    password.check(&name)?;
    admit(app, &format!("sign-ups from {}", peer.0), &SIGN_UPS_OF_ADDRESS).await?;
    let hash = app.passwords.hash(password).await?;
    let id = new_account_id().map_err(ApiFault::internal)?;
    let account = NewAccount { id, name, password: Some(hash), admin: false, terms };
    let link = invitation.map(|invitation| digest_of(&invitation));
    match app.backend.store.create_account(&account, link.as_ref(), Now::read()).await? {
        Created::Done(account) => {
            let cookie = begin_session(app, headers, &account).await?;
            Ok((account, cookie))
        }
        refused => Err(no_account(refused, &account.name)),
    }
}

/// Fails if this server makes accounts by invitation only, or makes none.
pub(super) fn admits_strangers(policy: &Policy) -> ApiResult<()> {
    match policy.sign_ups {
        SignUps::Open => Ok(()),
        SignUps::Invitation => Err(ApiFault::forbidden(
            "this server makes accounts by invitation only; ask whoever runs it for a link",
        )),
        SignUps::Closed => Err(ApiFault::forbidden("this server takes no new accounts; ask whoever runs it")),
    }
}

/// The error that says why no account was made.
pub(super) fn no_account(refused: Created, name: &AccountName) -> ApiFault {
    match refused {
        // Names are public, so the answer reveals no more than the list of contributors does.
        Created::NameTaken | Created::Done(_) => {
            ApiFault::taken(format!("the name `{name}` is taken; choose another"))
        }
        Created::NoLink => ApiFault::forbidden(
            "this invitation does not work: it has been used or has expired; ask for another",
        ),
    }
}

/// How long after a sign-in the owner counts as present, if the account has no password to ask for.
const FRESH: Duration = Duration::from_secs(10 * 60);

/// Checks that the owner asks, before something that cannot be undone. An open session is not enough, since
/// somebody else may sit at the open browser. The check takes the password or, for an account without one, a
/// recent sign-in.
pub(super) async fn confirm(
    app: &App,
    peer: &Peer,
    caller: &SignedIn,
    password: Option<Password>,
) -> ApiResult<()> {
    let account = &caller.account;
    let credentials = app.backend.store.credentials(&account.name).await?;
    if credentials.is_some_and(|found| found.password.is_some()) {
        let password =
            password.ok_or_else(|| ApiFault::invalid("password: got none, expected that of the account"))?;
        account_by_password(app, peer, &account.name, password).await?;
        return Ok(());
    }
    let began = app.backend.store.session_end(&caller.session).await?;
    let began = began.map(|end| end - SESSION.lasts.as_millis() as i64);
    if began.is_some_and(|began| Now::read().millis() - began < FRESH.as_millis() as i64) {
        return Ok(());
    }
    Err(ApiFault::forbidden(
        "you signed in more than ten minutes ago, and your account has no password to ask for; \
         sign out, sign in, and try again",
    ))
}

/// Replaces the password, or sets the first one. Ends all sessions except the one that asks. Tokens go on working:
/// they do not come from the password.
pub(crate) async fn change_password(
    app: &App,
    peer: &Peer,
    caller: &SignedIn,
    current: Option<Password>,
    new: Password,
) -> ApiResult<()> {
    new.check(&caller.account.name)?;
    confirm(app, peer, caller, current).await?;
    let hash = app.passwords.hash(new).await?;
    app.backend.store.set_password(&caller.account.id, &hash, Some(&caller.session)).await?;
    Ok(())
}

/// Deletes an account for good. Returns the header that makes the browser forget the session.
pub(crate) async fn delete(
    app: &App,
    peer: &Peer,
    caller: &SignedIn,
    password: Option<Password>,
    uploads: Uploads,
) -> ApiResult<HeaderValue> {
    confirm(app, peer, caller, password).await?;
    let files = app.backend.store.delete_account(&caller.account.id, uploads).await?;
    let files = files.ok_or_else(|| ApiFault::conflict(LAST_ADMINISTRATOR))?;
    app.backend.forget(files).await?;
    SESSION.forget(app.policy())
}

/// Sets the password of the account that a link is for. It also ends the account's sessions and removes what
/// somebody else may have added to the account.
pub(crate) async fn choose_password(app: &App, link: &str, password: Password) -> ApiResult<PasswordReset> {
    let broken =
        || ApiFault::forbidden("this link does not work: it has been used or has expired; ask for another");
    let secret = digest_of(link);
    // The link is looked up before the password is hashed: a link that does not work must not cost a hash.
    let account = match app.backend.store.link(&secret, Now::read()).await? {
        Some(LinkFor::Password(account)) => account,
        _ => return Err(broken()),
    };
    let account = app.backend.store.account(&account).await?.ok_or_else(broken)?;
    password.check(&account.name)?;
    let hash = app.passwords.hash(password).await?;
    app.backend.store.set_password_by_link(&secret, &hash, Now::read()).await?.ok_or_else(broken)
}

/// A kind of cookie that holds a secret.
pub(super) struct Kind {
    /// The name over TLS. Its prefix makes browsers accept the cookie only from this host and only over TLS.
    secure_name: &'static str,
    name: &'static str,
    /// How long the secret works.
    pub(super) lasts: Duration,
}

/// The cookie of a browser that is signed in.
pub(super) const SESSION: Kind = Kind {
    secure_name: "__Host-diode_session",
    name: "diode_session",
    lasts: Duration::from_secs(30 * 24 * 60 * 60),
};

/// The cookie of a browser that visits an OpenID Connect provider, or then chooses a name for its account.
pub(super) const OPENID: Kind =
    Kind { secure_name: "__Host-diode_openid", name: "diode_openid", lasts: Duration::from_secs(10 * 60) };

impl Kind {
    fn name(&self, policy: &Policy) -> &'static str {
        if policy.is_secure() { self.secure_name } else { self.name }
    }

    /// The secret that a browser sent.
    pub(super) fn read(&self, headers: &HeaderMap, policy: &Policy) -> Option<String> {
        headers.typed_get::<Cookie>()?.get(self.name(policy)).map(str::to_owned)
    }

    /// The header that makes the browser keep a secret.
    pub(super) fn keep(&self, secret: Secret, policy: &Policy) -> ApiResult<HeaderValue> {
        self.set(&secret.into_text(), self.lasts, policy)
    }

    /// The header that makes the browser forget the secret.
    pub(super) fn forget(&self, policy: &Policy) -> ApiResult<HeaderValue> {
        self.set("", Duration::ZERO, policy)
    }

    fn set(&self, value: &str, lasts: Duration, policy: &Policy) -> ApiResult<HeaderValue> {
        let secure = if policy.is_secure() { "; Secure" } else { "" };
        // Lax, not strict: a browser that comes back from a provider must send the cookie.
        let cookie = format!(
            "{}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={}{secure}",
            self.name(policy),
            lasts.as_secs()
        );
        HeaderValue::try_from(cookie).map_err(ApiFault::internal)
    }
}

const MINUTE: u64 = 60;
const QUARTER: Duration = Duration::from_secs(15 * MINUTE);

/// A password has at least ten characters, so nobody guesses it at this speed.
pub(crate) const SIGN_IN: Rate = Rate { name: "sign-ins", quota: 10, window: QUARTER };

/// Each try takes a core for 20 ms. A university or a company may share one address, so the quota is high.
pub(crate) const SIGN_INS_OF_ADDRESS: Rate = Rate { name: "sign-ins", quota: 200, window: QUARTER };

/// Each sign-up leaves a row for good.
pub(crate) const SIGN_UPS_OF_ADDRESS: Rate =
    Rate { name: "sign-ups", quota: 20, window: Duration::from_secs(60 * MINUTE) };

/// Each request leaves a row for a while.
pub(crate) const DEVICES_OF_ADDRESS: Rate = Rate { name: "devices", quota: 60, window: QUARTER };

/// Without a limit, a signed-in account could guess the code of a stranger's program and allow it.
pub(crate) const CODES_OF_ACCOUNT: Rate = Rate { name: "codes", quota: 20, window: QUARTER };

/// Each report leaves a row and takes an administrator's time.
pub(crate) const REPORTS: Rate = Rate { name: "reports", quota: 20, window: LONGEST_WINDOW };

/// Counts a report against its account or, without one, against its address.
pub(crate) async fn admit_report(app: &App, account: Option<&Account>, peer: &Peer) -> ApiResult<()> {
    let whose = account.map_or_else(|| peer.0.clone(), |account| account.id.to_string());
    admit(app, &format!("reports of {whose}"), &REPORTS).await?;
    Ok(())
}
