//! What saves sending a file again: tags, parts of files after RFC 9110, section 14, and the names of files in paths.

use std::iter::once;
use std::ops::Range;

use axum::body::{Body, HttpBody as _};
use axum::extract::{FromRequestParts, Path, Request};
use axum::http::request::Parts;
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

/// Whether `Accept-Encoding` names a coding with another weight than 0.
pub(crate) fn accepts(headers: &HeaderMap, coding: &str) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|one| {
        let mut parts = one.split(';').map(str::trim);
        let named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(coding));
        let refused = parts.filter_map(|part| part.strip_prefix("q=")).any(|q| q.parse() == Ok(0.0));
        named && !refused
    })
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

/// Marks an answer that is compressed although its media type or its headers say otherwise: a model becomes a sixth
/// smaller. It is no answer with a part of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Compressible;

/// Makes the tag of a compressed answer weak: other clients get other bytes under the same tag. A 304 varies as the
/// answer that it stands for; of stored files, of which clients ask for parts, only models are compressed.
pub(crate) async fn weakened(mut response: Response) -> Response {
    let is_unchanged = response.status() == StatusCode::NOT_MODIFIED;
    let headers = response.headers_mut();
    if is_unchanged && !headers.contains_key(header::ACCEPT_RANGES) {
        headers.entry(header::VARY).or_insert(HeaderValue::from_static("accept-encoding"));
    }
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

/// The part of a file that a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    All,
    Part(Range<u64>),
    /// A part that the file does not have.
    Nothing,
}

impl Wanted {
    /// Reads which part of a file is wanted. `tag` is the file's strong tag. If a client asks for several
    /// ranges, or for a range of anything but bytes, it gets the whole file, as the RFC allows.
    pub(crate) fn of(method: &Method, asked: &HeaderMap, tag: &HeaderValue, length: u64) -> Self {
        let mut ranges = asked.get_all(header::RANGE).iter();
        let (Some(range), None) = (ranges.next(), ranges.next()) else { return Self::All };
        // Methods other than GET have no ranges. An `If-Range` with a date never matches, because files have no
        // date.
        let is_same = asked.get(header::IF_RANGE).is_none_or(|condition| condition == tag);
        if method != Method::GET || !is_same {
            return Self::All;
        }
        range.to_str().ok().and_then(|range| read(range, length)).unwrap_or(Self::All)
    }
}

/// `None` if this is not exactly one range of bytes.
fn read(range: &str, length: u64) -> Option<Wanted> {
    let (unit, range) = range.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = range.trim().split_once('-')?;
    let part = match (first, last) {
        ("", last) => length.saturating_sub(number(last)?)..length,
        (first, "") => number(first)?..length,
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            if last < first {
                return None;
            }
            first..last.saturating_add(1).min(length)
        }
    };
    Some(if part.start < part.end { Wanted::Part(part) } else { Wanted::Nothing })
}

/// A number that does not fit in 64 bits counts as the largest that does: no file has so many bytes.
fn number(digits: &str) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u64::MAX))
}

/// The last part of the path, for routes where it is the name of a file.
pub(crate) struct FileName(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for FileName {
    type Rejection = ApiFault;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> ApiResult<Self> {
        let name = Path::<String>::from_request_parts(parts, state).await;
        name.map(|Path(name)| Self(name)).map_err(|error| ApiFault::invalid(error.body_text()))
    }
}

/// The media type of a file of data, by the ending of its name.
pub(crate) fn media(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("json") => "application/json",
        Some("csv") => "text/csv",
        Some("msgpack") => "application/vnd.msgpack",
        Some("parquet") => "application/vnd.apache.parquet",
        Some("zst") => "application/zstd",
        _ => "text/plain",
    }
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

#[cfg(test)]
mod range_tests {
    use super::*;

    const TAG: HeaderValue = HeaderValue::from_static("\"a\"");

    fn wanted(range: &str) -> Wanted {
        let asked = HeaderMap::from_iter([(header::RANGE, HeaderValue::try_from(range).unwrap())]);
        Wanted::of(&Method::GET, &asked, &TAG, 10)
    }

    #[test]
    fn one_range_is_read_in_its_three_forms() {
        assert_eq!(wanted("bytes=2-4"), Wanted::Part(2..5));
        assert_eq!(wanted("Bytes=2-"), Wanted::Part(2..10));
        assert_eq!(wanted("bytes=-3"), Wanted::Part(7..10));
        assert_eq!(wanted("bytes=9-999999999999999999999"), Wanted::Part(9..10));
        assert_eq!(wanted("bytes=-11"), Wanted::Part(0..10));
        for beyond in ["bytes=10-", "bytes=10-12", "bytes=-0", "bytes=999999999999999999999-"] {
            assert_eq!(wanted(beyond), Wanted::Nothing, "{beyond}");
        }
    }

    #[test]
    fn what_is_no_single_range_is_left_alone() {
        for other in ["bytes=4-2", "bytes=1-2,4-5", "bytes=a-", "bytes=-", "bytes", "lines=1-2", "bytes=+1-2"]
        {
            assert_eq!(wanted(other), Wanted::All, "{other}");
        }
        assert_eq!(Wanted::of(&Method::GET, &HeaderMap::new(), &TAG, 10), Wanted::All);
    }

    #[test]
    fn a_part_is_only_of_the_file_that_the_client_has_begun() {
        let with = |method: Method, condition: &'static str| {
            let mut asked = HeaderMap::from_iter([(header::RANGE, HeaderValue::from_static("bytes=2-"))]);
            asked.insert(header::IF_RANGE, HeaderValue::from_static(condition));
            Wanted::of(&method, &asked, &TAG, 10)
        };
        assert_eq!(with(Method::GET, "\"a\""), Wanted::Part(2..10));
        for other in ["\"b\"", "W/\"a\"", "Mon, 23 Nov 2026 08:00:00 GMT"] {
            assert_eq!(with(Method::GET, other), Wanted::All, "{other}");
        }
        assert_eq!(with(Method::HEAD, "\"a\""), Wanted::All);
    }

    #[test]
    fn an_empty_file_has_no_part() {
        let asked = HeaderMap::from_iter([(header::RANGE, HeaderValue::from_static("bytes=0-"))]);
        assert_eq!(Wanted::of(&Method::GET, &asked, &TAG, 0), Wanted::Nothing);
    }
}
