//! The layers around every route: request ids, logs, panics, security headers.

use std::any::Any;

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::{Json, Router};
use diode_api::ApiError;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::request_id::{MakeRequestUuid, PropagateRequestIdLayer, SetRequestIdLayer};
use tower_http::set_header::SetResponseHeaderLayer;
use tower_http::trace::TraceLayer;
use tracing::Span;

use super::ApiFault;
use super::fault::Cause;
use super::request_id::id_of;

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
        .layer(TraceLayer::new_for_http().make_span_with(span))
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
