//! Refuses programs that are too old to understand this server.

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use diode_api::{OLDEST_PROGRAM, SERVER_HEADER, Version};

use super::ApiFault;

const OWN: HeaderValue = HeaderValue::from_static(env!("CARGO_PKG_VERSION"));

/// Refuses programs of Diode that are too old, and adds this server's version to every answer. Other programs are
/// never refused.
pub(crate) async fn agree(request: Request, next: Next) -> Response {
    let user_agent = request.headers().get(header::USER_AGENT).and_then(|value| value.to_str().ok());
    let too_old = user_agent.and_then(Version::of_program).filter(|version| *version < OLDEST_PROGRAM);
    let mut response = match too_old {
        Some(version) => ApiFault::upgrade(format!(
            "diode {version} is too old for this server: got {version}, expected {OLDEST_PROGRAM} or newer; install \
             {} (/docs/guides/installing.html says how)",
            env!("CARGO_PKG_VERSION")
        ))
        .into_response(),
        None => next.run(request).await,
    };
    response.headers_mut().insert(HeaderName::from_static(SERVER_HEADER), OWN);
    response
}
