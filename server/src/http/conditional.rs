use std::iter::once;

use axum::body::{Body, HttpBody as _};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use diode_core::ids::Digest;
use headers::{ETag, Header as _, HeaderMapExt as _, IfNoneMatch};
use http_body_util::BodyExt as _;

use crate::http::{ApiFault, ApiResult};

/// The strong entity tag of some content.
pub(crate) fn etag(digest: &Digest) -> HeaderValue {
    // Hex digits in quotes are always a valid header.
    HeaderValue::try_from(format!("\"{digest}\"")).unwrap_or_else(|_| unreachable!("digests are hex"))
}

/// The weak entity tag of content that is sent plain or compressed, as the client wishes.
pub(crate) fn weak_etag(digest: &Digest) -> HeaderValue {
    HeaderValue::try_from(format!("W/\"{digest}\"")).unwrap_or_else(|_| unreachable!("digests are hex"))
}

/// Whether the client has the content of this tag, so that the answer can be 304.
pub(crate) fn is_current(asked: &HeaderMap, tag: &HeaderValue) -> bool {
    let wanted = asked.typed_get::<IfNoneMatch>().zip(ETag::decode(&mut once(tag)).ok());
    wanted.is_some_and(|(condition, tag)| !condition.precondition_passes(&tag))
}

/// The `Content-Disposition` of a file that a browser saves.
pub(crate) fn save_as(name: &str) -> ApiResult<HeaderValue> {
    HeaderValue::try_from(format!("attachment; filename=\"{name}\"")).map_err(ApiFault::internal)
}

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

#[cfg(test)]
mod tests {
    use axum::http::header;

    use super::*;

    #[test]
    fn tags_match_alone_in_lists_and_weakly() {
        let tag = etag(&Digest::of(b"x"));
        let text = tag.to_str().unwrap();
        let with = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::IF_NONE_MATCH, HeaderValue::try_from(value).unwrap());
            is_current(&headers, &tag)
        };
        assert!(with(text) && with("*") && with(&format!("\"a\", W/{text}")));
        assert!(!with("\"a\"") && !is_current(&HeaderMap::new(), &tag));
    }
}
