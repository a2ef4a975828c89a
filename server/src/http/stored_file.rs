//! Files that are stored under their digest: models, kernel packs and snapshots.

use std::ops::Range;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use diode_core::ids::Digest;

use crate::app::App;
use crate::blobs::BlobKind;
use crate::http::{ApiFault, ApiResult, Wanted, etag, is_current, save_as};

/// For a path whose content never changes and is never removed.
pub(crate) const FOREVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

/// For content that never changes but may be removed: clients ask each time whether it still exists.
pub(crate) const WHILE_THERE: HeaderValue = HeaderValue::from_static("no-cache");

/// For content that only the caller may see.
pub(crate) const PRIVATE: HeaderValue = HeaderValue::from_static("private, no-store");

/// A file for an answer.
pub(crate) struct StoredFile<'a> {
    pub(crate) kind: BlobKind,
    /// The digest of the file's bytes.
    pub(crate) sha256: &'a Digest,
    pub(crate) bytes: u64,
    /// The file's name when a browser saves it.
    pub(crate) name: &'a str,
    pub(crate) media: &'static str,
    pub(crate) caching: HeaderValue,
}

impl StoredFile<'_> {
    /// Answers with the whole file, with the part that is asked for, or with headers alone. Reads only the
    /// bytes that are sent.
    pub(crate) async fn answer(self, app: &App, method: &Method, asked: &HeaderMap) -> ApiResult<Response> {
        let tag = etag(self.sha256);
        let caching = [
            (header::ETAG, tag.clone()),
            (header::CACHE_CONTROL, self.caching),
            (header::ACCEPT_RANGES, HeaderValue::from_static("bytes")),
        ];
        if is_current(asked, &tag) {
            return Ok((StatusCode::NOT_MODIFIED, caching).into_response());
        }
        let head = [
            (header::CONTENT_TYPE, HeaderValue::from_static(self.media)),
            (header::CONTENT_DISPOSITION, save_as(self.name)?),
        ];
        let read = async |part: Option<Range<u64>>| {
            let blobs = &app.backend.blobs;
            Ok(match part {
                None => Body::from_stream(blobs.stream(self.kind, self.sha256).await?),
                Some(part) => Body::from_stream(blobs.stream_part(self.kind, self.sha256, part).await?),
            })
        };
        let sent = in_parts(method, asked, &tag, self.bytes, read).await?;
        Ok(if sent.status().is_success() { (caching, head, sent).into_response() } else { sent })
    }
}

/// Answers with a whole file, with the part that is asked for, or with headers alone. `read` gets the part, or `None`
/// for the whole file, and is called only if bytes are sent.
pub(crate) async fn in_parts(
    method: &Method,
    asked: &HeaderMap,
    tag: &HeaderValue,
    bytes: u64,
    read: impl AsyncFnOnce(Option<Range<u64>>) -> ApiResult<Body>,
) -> ApiResult<Response> {
    let long = |bytes: u64| [(header::CONTENT_LENGTH, HeaderValue::from(bytes))];
    let of = |range: String| HeaderValue::try_from(range).map_err(ApiFault::internal);
    match Wanted::of(method, asked, tag, bytes) {
        Wanted::All if method == Method::HEAD => Ok((long(bytes), Body::empty()).into_response()),
        Wanted::All => Ok((long(bytes), read(None).await?).into_response()),
        Wanted::Part(part) => {
            let range =
                [(header::CONTENT_RANGE, of(format!("bytes {}-{}/{bytes}", part.start, part.end - 1))?)];
            let length = long(part.end - part.start);
            Ok((StatusCode::PARTIAL_CONTENT, range, length, read(Some(part)).await?).into_response())
        }
        Wanted::Nothing => {
            let range = [(header::CONTENT_RANGE, of(format!("bytes */{bytes}"))?)];
            let fault = ApiFault::no_such_range(format!(
                "Range: got `{}`, expected one that begins before the end of {bytes} bytes",
                asked.get(header::RANGE).and_then(|range| range.to_str().ok()).unwrap_or_default(),
            ));
            Ok((range, fault).into_response())
        }
    }
}
