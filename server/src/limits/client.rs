use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use crate::accounts::{Caller, Identified, Peer};
use crate::app::App;

/// By whom requests are counted: the account, or the address of who shows none that works. So who guesses
/// at tokens is counted by address.
pub(crate) struct Client(pub(crate) String);

impl FromRequestParts<App> for Client {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        // An error is told by the handler, if it asks who calls.
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
