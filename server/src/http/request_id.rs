use axum::extract::Request;
use tower_http::request_id::RequestId;

/// The id by which the log and the answer name a request.
pub(crate) fn id_of(request: &Request) -> &str {
    let id = request.extensions().get::<RequestId>();
    id.and_then(|id| id.header_value().to_str().ok()).unwrap_or("unknown")
}
