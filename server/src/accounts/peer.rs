use std::convert::Infallible;
use std::net::SocketAddr;

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;

use crate::app::App;

/// The address of the client, as text. Attempts are counted by it; it proves nothing.
pub(crate) struct Peer(pub(crate) String);

impl FromRequestParts<App> for Peer {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        // A proxy adds the address that it saw at the end; what stands before came from the client.
        let forwarded = parts.headers.get_all("x-forwarded-for").iter().next_back();
        let forwarded =
            forwarded.and_then(|value| value.to_str().ok()).and_then(|list| list.rsplit(',').next());
        let forwarded = forwarded.and_then(|last| last.trim().parse::<std::net::IpAddr>().ok());
        let connected = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
        let address = forwarded.filter(|_| app.policy().behind_proxy).or(connected);
        Ok(Self(address.map_or_else(|| "unknown".to_owned(), |address| address.to_string())))
    }
}
