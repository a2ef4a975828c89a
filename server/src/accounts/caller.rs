use axum::extract::{FromRequestParts, OptionalFromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use diode_api::{Account, Token};
use diode_core::ids::Digest;
use headers::authorization::Bearer;
use headers::{Authorization, HeaderMapExt as _};

use super::cookie::SESSION;
use super::secret::digest_of;
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
