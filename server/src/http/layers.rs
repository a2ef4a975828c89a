//! The layers around every route: request ids, logs, panics, security headers.

use std::any::Any;

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, Uri, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use diode_api::{ApiError, OLDEST_PROGRAM, SERVER_HEADER, Version};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::request_id::{MakeRequestUuid, PropagateRequestIdLayer, RequestId, SetRequestIdLayer};
use tower_http::set_header::SetResponseHeaderLayer;
use tower_http::trace::TraceLayer;
use tracing::Span;

use crate::accounts::TOKEN_PREFIX;
use crate::http::ApiFault;
use crate::http::fault::Cause;

/// The dashboard needs its own files, WebAssembly and inline styles (bars in tables), and nothing from other
/// sites.
const CONTENT_SECURITY_POLICY: &str = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; \
     style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; base-uri 'self'; \
     frame-ancestors 'none'; form-action 'self'";

const SECURITY_HEADERS: [(HeaderName, &str); 3] = [
    (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "same-origin"),
];

/// For a year after each answer, browsers use TLS alone, whatever address somebody types or follows.
const STRICT: &str = "max-age=31536000";

/// Puts all layers around the routes. With `is_strict`, answers tell browsers to use TLS alone.
pub(crate) fn around(router: Router, is_strict: bool) -> Router {
    // The last layer added is the outermost.
    let mut router = router.layer(CatchPanicLayer::custom(panicked)).layer(from_fn(log_cause));
    for (name, value) in SECURITY_HEADERS {
        router = router.layer(SetResponseHeaderLayer::if_not_present(name, HeaderValue::from_static(value)));
    }
    if is_strict {
        let (name, value) = (header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static(STRICT));
        router = router.layer(SetResponseHeaderLayer::overriding(name, value));
    }
    router
        // `log_cause` tells of failures, with their cause.
        .layer(TraceLayer::new_for_http().make_span_with(span).on_failure(()))
        .layer(PropagateRequestIdLayer::x_request_id())
        .layer(SetRequestIdLayer::x_request_id(MakeRequestUuid))
}

/// The span that the log adds to each line about a request. It leaves out the query, because the query of a
/// link is a secret.
fn span(request: &Request) -> Span {
    let (method, path) = (request.method(), request.uri().path());
    tracing::error_span!("request", request_id = id_of(request), %method, path)
}

/// Logs the cause of a failure, and adds the request's id to the answer.
async fn log_cause(request: Request, next: Next) -> Response {
    let id = id_of(&request).to_owned();
    let mut response = next.run(request).await;
    let Some(Cause(cause)) = response.extensions_mut().remove::<Cause>() else {
        return response;
    };
    tracing::error!("{cause:#}");
    if response.status() != axum::http::StatusCode::INTERNAL_SERVER_ERROR {
        return response;
    }
    let body = ApiError {
        code: "internal".to_owned(),
        message: format!("something went wrong on the server; the log tells more about request {id}"),
    };
    (response.status(), Json(body)).into_response()
}

fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    ApiFault::internal(anyhow::anyhow!("a handler panicked: {text}")).into_response()
}

/// The id by which the log and the answer name a request.
pub(crate) fn id_of(request: &Request) -> &str {
    let id = request.extensions().get::<RequestId>();
    id.and_then(|id| id.header_value().to_str().ok()).unwrap_or("unknown")
}

/// This many hex digits after the prefix show a token. No other word that follows the prefix has so many.
const DIGITS: usize = 32;

/// Refuses requests with a token anywhere in the URL, because URLs end up in logs, histories and `Referer`.
pub(crate) async fn no_token_in_url(request: Request, next: Next) -> Response {
    if holds_token(request.uri()) {
        let fault = ApiFault::invalid(
            "a token stands in the URL, where others may read it: revoke it, and send another as \
             `Authorization: Bearer TOKEN`",
        );
        return fault.into_response();
    }
    next.run(request).await
}

fn holds_token(uri: &Uri) -> bool {
    let is_token = |rest: &str| rest.bytes().take_while(u8::is_ascii_hexdigit).count() >= DIGITS;
    uri.to_string().split(TOKEN_PREFIX).skip(1).any(is_token)
}

const OWN: HeaderValue = HeaderValue::from_static(env!("CARGO_PKG_VERSION"));

/// Refuses programs of Diode that are too old, and adds this server's version to every answer. Other programs are
/// never refused.
pub(crate) async fn refuse_old_programs(request: Request, next: Next) -> Response {
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

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::routing::get;
    use tower::ServiceExt as _;

    use super::*;

    #[tokio::test]
    async fn a_panic_is_a_500_that_tells_nothing_but_where_to_ask() {
        async fn broken() -> &'static str {
            panic!("a secret")
        }
        let router = around(Router::new().route("/", get(broken)), false);
        let response = router.oneshot(Request::new(Body::empty())).await.unwrap();
        assert_eq!(response.status(), 500);
        let id = response.headers()["x-request-id"].to_str().unwrap().to_owned();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        let error: ApiError = serde_json::from_slice(&body).unwrap();
        assert_eq!(error.code, "internal");
        assert!(error.message.contains(&id) && !error.message.contains("secret"), "{}", error.message);
    }
}

#[cfg(test)]
mod token_in_url_tests {
    use super::*;

    #[test]
    fn tokens_are_found_anywhere_and_words_are_none() {
        let token = format!("diode_{}", "0a".repeat(32));
        for (uri, expected) in [
            (format!("/api/v1/hardware?x={token}"), true),
            (format!("/api/v1/uploads/{token}"), true),
            (format!("/api/v1/hardware?x=diode_&y={token}"), true),
            ("/docs/torch_diode_fade".to_owned(), false),
            ("/".to_owned(), false),
        ] {
            assert_eq!(holds_token(&uri.parse().unwrap()), expected, "{uri}");
        }
    }
}
