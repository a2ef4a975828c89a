//! Tags of answers, so that a client that already has an answer does not get it again.

use axum::body::{Body, HttpBody as _};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use diode_core::ids::Digest;
use http_body_util::BodyExt as _;
use utoipa::openapi::{OpenApi, RefOr, Response as Described, ResponseBuilder};

use super::{ApiFault, is_current, weak_etag};

/// The most bytes of an answer that gets a tag.
const MAX_TAGGED: u64 = 16 << 20;

/// Adds a tag of the content to JSON that has none yet. Answers 304 to clients that already have this
/// content.
pub(crate) async fn tagged(request: Request, next: Next) -> Response {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return next.run(request).await;
    }
    let asked: HeaderMap = request.headers().clone();
    let response = next.run(request).await;
    if !is_meant(&response) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // This takes little more memory: the handler already holds the whole answer.
    let bytes = match body.collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(error) => return ApiFault::internal(error).into_response(),
    };
    let tag = weak_etag(&Digest::of(&bytes));
    // A cache must not give the answer of a signed-in caller to anybody else.
    let is_own = asked.contains_key(header::AUTHORIZATION) || asked.contains_key(header::COOKIE);
    let caching = if is_own { "private, no-cache" } else { "no-cache" };
    parts.headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(caching));
    let has_it = is_current(&asked, &tag);
    parts.headers.insert(header::ETAG, tag);
    if has_it {
        parts.headers.remove(header::CONTENT_TYPE);
        parts.headers.remove(header::CONTENT_LENGTH);
        parts.status = StatusCode::NOT_MODIFIED;
        return Response::from_parts(parts, Body::empty());
    }
    Response::from_parts(parts, Body::from(bytes))
}

/// Adds the answer 304 to the description of every operation that gives JSON.
pub(crate) fn describe_unchanged(document: &mut OpenApi) {
    let is_json = |described: &RefOr<Described>| match described {
        RefOr::T(described) => described.content.contains_key("application/json"),
        RefOr::Ref(_) => false,
    };
    for item in document.paths.paths.values_mut() {
        let Some(operation) = &mut item.get else { continue };
        let responses = &mut operation.responses.responses;
        if responses.get("200").is_some_and(is_json) {
            let unchanged = || ResponseBuilder::new().description("The client has it already").build();
            responses.entry("304".to_owned()).or_insert_with(|| unchanged().into());
        }
    }
}

fn is_meant(response: &Response) -> bool {
    let headers = response.headers();
    let is_json = headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == "application/json");
    let is_whole = response.body().size_hint().exact().is_some_and(|bytes| bytes <= MAX_TAGGED);
    response.status() == StatusCode::OK
        && is_json
        && is_whole
        && !headers.contains_key(header::ETAG)
        && !headers.contains_key(header::CACHE_CONTROL)
}

/// Makes the tag of a compressed answer weak: other clients get other bytes under the same tag.
pub(crate) async fn weakened(mut response: Response) -> Response {
    let headers = response.headers_mut();
    if headers.contains_key(header::CONTENT_ENCODING)
        && let Some(tag) = headers.get(header::ETAG)
        && let Ok(text) = tag.to_str()
        && !text.starts_with("W/")
        && let Ok(weak) = HeaderValue::try_from(format!("W/{text}"))
    {
        headers.insert(header::ETAG, weak);
    }
    response
}
