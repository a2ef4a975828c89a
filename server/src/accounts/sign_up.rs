use axum::http::{HeaderMap, HeaderValue};
use diode_api::{Account, SignUp};
use diode_core::ids::AccountName;

use super::limits::SIGN_UPS_OF_ADDRESS;
use super::secret::{digest_of, new_account_id};
use super::sign_in::begin_session;
use super::terms::check;
use super::{Needed, Peer, Policy, SignUps};
use crate::app::App;
use crate::http::{ApiFault, ApiResult};
use crate::limits::admit;
use crate::store::{Created, NewAccount, Now};

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
