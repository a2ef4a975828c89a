use std::convert::Infallible;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;

use crate::app::App;

/// How many bits of an IPv6 address name a subscriber. The subscriber chooses the other bits.
const SUBSCRIBER_BITS: u32 = 64;

/// The address of the client as text; for IPv6, its network. It is used to count tries, and is no proof of
/// who asks.
pub(crate) struct Peer(pub(crate) String);

impl FromRequestParts<App> for Peer {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        // A proxy appends the address that it saw. The client itself may have sent the addresses before it.
        let forwarded = parts.headers.get_all("x-forwarded-for").iter().next_back();
        let forwarded =
            forwarded.and_then(|value| value.to_str().ok()).and_then(|list| list.rsplit(',').next());
        let forwarded = forwarded.and_then(|last| last.trim().parse::<IpAddr>().ok());
        let connected = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
        let address = forwarded.filter(|_| app.policy().behind_proxy).or(connected);
        Ok(Self(address.map_or_else(|| "unknown".to_owned(), counted_as)))
    }
}

fn counted_as(address: IpAddr) -> String {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let network = address.to_bits() >> SUBSCRIBER_BITS << SUBSCRIBER_BITS;
            format!("{}/{SUBSCRIBER_BITS}", Ipv6Addr::from_bits(network))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscriber_counts_once() {
        let of = |text: &str| counted_as(text.parse().unwrap());
        assert_eq!(of("203.0.113.7"), "203.0.113.7");
        assert_eq!(of("::ffff:203.0.113.7"), "203.0.113.7");
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), of("2001:db8:1:2:ffff::"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
    }
}
