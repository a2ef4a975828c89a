//! Whether this program and a server understand each other.

use diode_core::api::{ApiError, OLDEST_SERVER, PROGRAM, SERVER_HEADER, Version};
use ureq::http::{Request, Response, StatusCode};
use ureq::middleware::MiddlewareNext;
use ureq::{Body, SendBody};

/// What a server that is too old is taken to have answered.
pub(super) const SERVER_TOO_OLD: &str = "server_too_old";
/// What a server answers to a program that is too old.
pub(super) const PROGRAM_TOO_OLD: &str = "program_too_old";

/// What this program calls itself.
pub(super) fn user_agent() -> String {
    format!("{PROGRAM}/{}", env!("CARGO_PKG_VERSION"))
}

/// Takes an answer of a server that is too old for a refusal: what it says may mean something else. A server that does
/// not say its version, such as a proxy that answers for it, is taken at its word.
pub(super) fn refuse_old_servers(
    request: Request<SendBody<'_>>,
    next: MiddlewareNext<'_>,
) -> Result<Response<Body>, ureq::Error> {
    let answer = next.handle(request)?;
    let named = answer.headers().get(SERVER_HEADER).and_then(|value| value.to_str().ok());
    let Some(version) = named.and_then(|named| named.parse::<Version>().ok()) else { return Ok(answer) };
    if version >= OLDEST_SERVER {
        return Ok(answer);
    }
    let message = format!(
        "the server is too old for diode {}: got {version}, expected {OLDEST_SERVER} or newer; whoever runs it must \
         update it",
        env!("CARGO_PKG_VERSION")
    );
    let refusal = ApiError { code: SERVER_TOO_OLD.to_owned(), message };
    let body =
        Body::builder().mime_type("application/json").data(serde_json::to_vec(&refusal).unwrap_or_default());
    Response::builder().status(StatusCode::UPGRADE_REQUIRED).body(body).map_err(ureq::Error::from)
}
