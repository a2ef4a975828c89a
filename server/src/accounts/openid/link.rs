use diode_api::Password;
use diode_core::ids::AccountId;

use super::provider;
use crate::accounts::confirm::confirm;
use crate::accounts::{Peer, SignedIn};
use crate::app::App;
use crate::http::{ApiFault, ApiResult};
use crate::store::{Identity, Linked, Now, Unlinked};

/// Checks that an account's owner asks for the link. An open session is not enough, because the provider
/// opens a linked account for good.
pub(crate) async fn link_first(
    app: &App,
    peer: &Peer,
    caller: &SignedIn,
    password: Option<Password>,
) -> ApiResult<()> {
    confirm(app, peer, caller, password).await
}

/// Links the account that asked for it, if the same account is still signed in.
pub(super) async fn link(
    app: &App,
    caller: Option<SignedIn>,
    account: &AccountId,
    identity: &Identity,
) -> ApiResult<()> {
    let stale = || {
        ApiFault::forbidden(
            "another account is signed in than the one that was to be linked, so nothing was; begin again",
        )
    };
    let caller = caller.filter(|caller| caller.account.id == *account).ok_or_else(stale)?;
    let label = provider(app)?.label().to_owned();
    match app.backend.store.link_identity(account, identity, &caller.session, Now::read()).await? {
        Linked::Done => Ok(()),
        Linked::SignedOut => Err(stale()),
        Linked::Taken => Err(ApiFault::taken(format!(
            "this account of {label} signs in to another account here; unlink it there first"
        ))),
        Linked::HasOne => Err(ApiFault::conflict(format!(
            "your account is linked with {label} already; unlink it first to link another"
        ))),
    }
}

/// Unlinks an account from the provider.
pub(crate) async fn unlink(
    app: &App,
    peer: &Peer,
    caller: &SignedIn,
    password: Option<Password>,
) -> ApiResult<()> {
    let provider = provider(app)?;
    confirm(app, peer, caller, password).await?;
    match app.backend.store.unlink_identity(&caller.account.id, provider.issuer()).await? {
        Unlinked::Done => Ok(()),
        Unlinked::NotLinked => {
            Err(ApiFault::conflict(format!("your account is not linked with {}", provider.label())))
        }
        Unlinked::IsLast => Err(ApiFault::conflict(format!(
            "{} is the only way into your account; choose a password first, then unlink it",
            provider.label()
        ))),
    }
}
