//! Checks that this program and a server are new enough for each other.

use diode_api::{ApiError, OLDEST_SERVER, PROGRAM, SERVER_HEADER, Version};
use ureq::http::{Request, Response, StatusCode};
use ureq::middleware::MiddlewareNext;
use ureq::{Body, SendBody};

/// The code that stands in for any answer of a server that is too old.
pub(super) const SERVER_TOO_OLD: &str = "server_too_old";
/// The code with which a server answers a program that is too old.
pub(super) const PROGRAM_TOO_OLD: &str = "program_too_old";

/// The name and version of this program, as requests state them.
pub(super) fn user_agent() -> String {
    format!("{PROGRAM}/{}", env!("CARGO_PKG_VERSION"))
}

/// Replaces the answer of a server that is too old by a refusal, because the answer may mean something else. An answer
/// without the server's version, such as from a proxy, is left as it is.
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
