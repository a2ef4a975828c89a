use std::convert::Infallible;
use std::marker::PhantomData;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use axum::extract::{ConnectInfo, FromRequestParts, OptionalFromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use diode_api::{Account, Scope, Token};
use diode_core::ids::Digest;
use headers::authorization::Bearer;
use headers::{Authorization, HeaderMapExt as _};

use crate::accounts::secrets::digest_of;
use crate::accounts::sessions::SESSION;
use crate::accounts::{Anonymous, Policy};
use crate::admin::acts::Actor;
use crate::app::App;
use crate::http::{ApiFault, ApiResult};
use crate::store::Now;

/// The account that makes a request, and how the request showed it.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) account: Account,
    pub(crate) by: By,
}

#[derive(Clone)]
pub(crate) enum By {
    /// The request has a session, whose secret has this digest.
    Session(Digest),
    Token(Token),
}

/// The caller of a request, kept with the request so that the database is asked only once.
#[derive(Clone)]
pub(crate) struct Identified(pub(crate) Option<Caller>);

impl Caller {
    /// `None` if the request has neither token nor session. A session that has ended counts as no session. A
    /// token that does not work is an error: otherwise its owner's upload would be stored as anonymous.
    pub(crate) async fn identify(parts: &Parts, app: &App) -> ApiResult<Option<Self>> {
        if let Some(Identified(caller)) = parts.extensions.get() {
            return Ok(caller.clone());
        }
        if parts.headers.contains_key(header::AUTHORIZATION) {
            return by_token(parts, app).await.map(Some);
        }
        let Some(secret) = SESSION.read(&parts.headers, app.policy()) else { return Ok(None) };
        let secret = digest_of(&secret);
        let Some(account) = app.backend.store.session(&secret, Now::read()).await? else { return Ok(None) };
        if !parts.method.is_safe() && !says_where_from(&parts.headers) {
            return Err(ApiFault::forbidden(
                "a session came without Origin and Sec-Fetch-Site, so this may be another site's doing; \
                 programs use an API token (diode login)",
            ));
        }
        Ok(Some(Self { account, by: By::Session(secret) }))
    }
}

/// Whether the request says which page made it, as browsers do. The layer around all routes has checked the
/// page.
fn says_where_from(headers: &HeaderMap) -> bool {
    headers.contains_key(header::ORIGIN) || headers.contains_key("sec-fetch-site")
}

async fn by_token(parts: &Parts, app: &App) -> ApiResult<Caller> {
    let Some(Authorization(bearer)) = parts.headers.typed_get::<Authorization<Bearer>>() else {
        return Err(ApiFault::unauthorized("Authorization: expected `Bearer TOKEN`"));
    };
    let found = app.backend.store.use_token(&digest_of(bearer.token()), Now::read()).await?;
    let Some((account, token)) = found else {
        return Err(ApiFault::unauthorized(
            "the token does not work: it is mistyped, expired or revoked; `diode login` gets another",
        ));
    };
    Ok(Caller { account, by: By::Token(token) })
}

impl FromRequestParts<App> for Caller {
    type Rejection = ApiFault;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> ApiResult<Self> {
        let caller = Self::identify(parts, app).await?;
        caller.ok_or_else(|| {
            ApiFault::unauthorized(
                "this needs an account: sign in at /sign-in, or send a token as `Authorization: Bearer TOKEN`",
            )
        })
    }
}

impl OptionalFromRequestParts<App> for Caller {
    type Rejection = ApiFault;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> ApiResult<Option<Self>> {
        Self::identify(parts, app).await
    }
}

/// Admits sessions and no tokens: a stolen token must not allow more than its scopes.
pub(crate) struct SignedIn {
    pub(crate) account: Account,
    pub(crate) session: Digest,
}

impl FromRequestParts<App> for SignedIn {
    type Rejection = ApiFault;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> ApiResult<Self> {
        let caller = <Caller as FromRequestParts<App>>::from_request_parts(parts, app).await?;
        match caller.by {
            By::Session(session) => Ok(Self { account: caller.account, session }),
            By::Token(_) => {
                Err(ApiFault::forbidden("a token cannot do this; sign in with the password at /sign-in"))
            }
        }
    }
}

/// Admits the requests that have the right `R`.
pub(crate) struct Authorized<R> {
    /// `None` if the request has no account and this server does not need one for the right.
    pub(crate) account: Option<Account>,
    right: PhantomData<R>,
}

impl Authorized<Admin> {
    /// Who acts. There always is an account, because this right always needs one.
    pub(crate) fn by(&self) -> ApiResult<Actor<'_>> {
        let account = self.account.as_ref();
        account.map(Actor::Account).ok_or_else(|| ApiFault::unauthorized("this needs an account"))
    }
}

/// A right that routes ask for: what it allows, and what a request needs to have it.
pub(crate) trait Right {
    /// The scope that a token must have.
    const SCOPE: Scope;

    /// The start of the message "`WHAT` needs an account".
    const WHAT: &'static str;

    /// Whether a request has the right without an account.
    fn is_free(policy: &Policy) -> bool;
}

/// The right to store datasets.
pub(crate) struct Upload;
/// The right to contribute models, and to see one's own contributions.
pub(crate) struct Contribute;
/// The right to tell administrators of a bad upload.
pub(crate) struct Report;
/// The right to measure what the server asks for.
pub(crate) struct Measure;
/// The right to ask for trainings.
pub(crate) struct Train;
/// The right to look after the server.
pub(crate) struct Admin;

impl Right for Upload {
    const SCOPE: Scope = Scope::Upload;
    const WHAT: &'static str = "an upload to this server";

    fn is_free(policy: &Policy) -> bool {
        policy.anonymous != Anonymous::None
    }
}

impl Right for Contribute {
    const SCOPE: Scope = Scope::Upload;
    const WHAT: &'static str = "contributing models to this server";

    /// Never free: an administrator decides on contributed models, which name their contributor.
    fn is_free(_: &Policy) -> bool {
        false
    }
}

impl Right for Report {
    const SCOPE: Scope = Scope::Upload;
    const WHAT: &'static str = "a report to this server";

    fn is_free(policy: &Policy) -> bool {
        Upload::is_free(policy)
    }
}

impl Right for Measure {
    const SCOPE: Scope = Scope::Agent;
    const WHAT: &'static str = "an agent of this server";

    fn is_free(policy: &Policy) -> bool {
        policy.anonymous != Anonymous::None
    }
}

impl Right for Train {
    const SCOPE: Scope = Scope::Train;
    const WHAT: &'static str = "a training on this server";

    fn is_free(policy: &Policy) -> bool {
        policy.anonymous == Anonymous::All
    }
}

impl Right for Admin {
    const SCOPE: Scope = Scope::Admin;
    const WHAT: &'static str = "this";

    fn is_free(_: &Policy) -> bool {
        false
    }
}

impl<R: Right> FromRequestParts<App> for Authorized<R> {
    type Rejection = ApiFault;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> ApiResult<Self> {
        let Some(caller) = Caller::identify(parts, app).await? else {
            if R::is_free(app.policy()) {
                return Ok(Self { account: None, right: PhantomData });
            }
            return Err(ApiFault::unauthorized(format!(
                "{} needs an account; `diode login --server {}` gets a token for the command line",
                R::WHAT,
                app.policy().public_url
            )));
        };
        if R::SCOPE == Scope::Admin && !caller.account.admin {
            return Err(ApiFault::forbidden("only an administrator of this server may do this"));
        }
        if let By::Token(token) = caller.by
            && !token.scopes.contains(&R::SCOPE)
        {
            let scopes: Vec<_> = token.scopes.iter().map(|scope| scope.as_str()).collect();
            return Err(ApiFault::forbidden(format!(
                "the token is for {}, expected one for {}; make another at /account or by `diode login`",
                scopes.join(", "),
                R::SCOPE
            )));
        }
        Ok(Self { account: Some(caller.account), right: PhantomData })
    }
}

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
mod peer_tests {
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
