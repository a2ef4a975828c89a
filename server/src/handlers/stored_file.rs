//! Files that lie in storage under their digest: models, kernel packs and snapshots.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use diode_core::ids::Digest;

use crate::app::App;
use crate::blobs::BlobKind;
use crate::http::{ApiFault, ApiResult, Wanted, etag, is_current, save_as};

/// What a path names never changes and never goes.
pub(super) const FOREVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

/// It never changes, but it may go: a client asks each time whether it is there.
pub(super) const WHILE_THERE: HeaderValue = HeaderValue::from_static("no-cache");

/// It is for whoever asks, and for nobody else.
pub(super) const PRIVATE: HeaderValue = HeaderValue::from_static("private, no-store");

/// A file to be sent.
pub(super) struct StoredFile<'a> {
    pub(super) kind: BlobKind,
    /// The digest of its bytes.
    pub(super) sha256: &'a Digest,
    pub(super) bytes: u64,
    /// Its name when it is saved.
    pub(super) name: &'a str,
    pub(super) media: &'static str,
    pub(super) caching: HeaderValue,
}

impl StoredFile<'_> {
    /// Answers with all of it, the part that is asked for, or only what is known of it. Of the file itself,
    /// nothing is read that is not sent.
    pub(super) async fn answer(self, app: &App, method: &Method, asked: &HeaderMap) -> ApiResult<Response> {
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
        let long = |bytes: u64| [(header::CONTENT_LENGTH, HeaderValue::from(bytes))];
        let of = |range: String| HeaderValue::try_from(range).map_err(ApiFault::internal);
        match Wanted::of(method, asked, &tag, self.bytes) {
            Wanted::All if method == Method::HEAD => {
                Ok((caching, head, long(self.bytes), Body::empty()).into_response())
            }
            Wanted::All => {
                let pieces = app.backend.blobs.stream(self.kind, self.sha256).await?;
                Ok((caching, head, long(self.bytes), Body::from_stream(pieces)).into_response())
            }
            Wanted::Part(part) => {
                let range = of(format!("bytes {}-{}/{}", part.start, part.end - 1, self.bytes))?;
                let length = long(part.end - part.start);
                let pieces = app.backend.blobs.stream_part(self.kind, self.sha256, part).await?;
                let range = [(header::CONTENT_RANGE, range)];
                let body = Body::from_stream(pieces);
                Ok((StatusCode::PARTIAL_CONTENT, caching, head, range, length, body).into_response())
            }
            Wanted::Nothing => {
                let range = [(header::CONTENT_RANGE, of(format!("bytes */{}", self.bytes))?)];
                let fault = ApiFault::no_such_range(format!(
                    "Range: got `{}`, expected one that begins before the end of {} bytes",
                    asked.get(header::RANGE).and_then(|range| range.to_str().ok()).unwrap_or_default(),
                    self.bytes
                ));
                Ok((range, fault).into_response())
            }
        }
    }
}
