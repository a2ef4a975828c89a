use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::accounts::{Caller, Identified, Peer};
use crate::app::App;

/// The name under which requests are counted: the caller's account or, without a valid session or token, the
/// address. So somebody who guesses tokens is counted by address.
pub(crate) struct Client(pub(crate) String);

impl FromRequestParts<App> for Client {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        // If the caller cannot be identified, a handler that needs the caller reports the error.
        if let Ok(caller) = Caller::identify(parts, app).await {
            let account = caller.as_ref().map(|caller| caller.account.id.to_string());
            parts.extensions.insert(Identified(caller));
            if let Some(account) = account {
                return Ok(Self(account));
            }
        }
        let Peer(address) = Peer::from_request_parts(parts, app).await?;
        Ok(Self(address))
    }
}
