use axum::http::HeaderValue;

use super::keys::Keys;
use super::provider;
use crate::accounts::cookie::OPENID;
use crate::accounts::limits::SIGN_INS_OF_ADDRESS;
use crate::accounts::secret::{Secret, digest_of};
use crate::accounts::{Peer, SignedIn};
use crate::app::App;
use crate::http::{ApiFault, ApiResult};
use crate::limits::admit;
use crate::store::{Now, OpenIdSignIn};

/// Why a browser is sent to the provider.
#[derive(Default)]
pub(crate) struct Wish {
    /// The page of this server that the browser goes to afterwards.
    pub(crate) next: Option<String>,
    /// The secret at the end of an invitation's link.
    pub(crate) invitation: Option<String>,
    /// Who wants to link an account; `None` to sign in.
    pub(crate) link: Option<SignedIn>,
}

/// Returns the provider's address for this browser, and the header with the cookie by which the server
/// recognises the browser.
pub(crate) async fn begin(app: &App, peer: &Peer, wish: Wish) -> ApiResult<(String, HeaderValue)> {
    let provider = provider(app)?;
    admit(app, &format!("sign-ins from {}", peer.0), &SIGN_INS_OF_ADDRESS).await?;
    let secret = Secret::draw("").map_err(ApiFault::internal)?;
    let digest = secret.digest();
    let cookie = OPENID.keep(secret.clone(), app.policy())?;
    let address = provider.address(Keys::of(&secret.into_text())).await?;
    let sign_in = OpenIdSignIn {
        next: wish.next,
        account: wish.link.map(|caller| caller.account.id),
        invitation: wish.invitation.map(|invitation| digest_of(&invitation)),
    };
    let now = Now::read();
    app.backend.store.add_openid_sign_in(&digest, &sign_in, now, now.lease_end(OPENID.lasts)).await?;
    Ok((address, cookie))
}
