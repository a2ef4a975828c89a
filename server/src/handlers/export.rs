//! The common part of answers with datasets and tables.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use diode_api::DATA_LICENCE;
use diode_core::ids::{Digest, HardwareSlug};
use futures_util::stream;

use crate::app::App;
use crate::exports::ExportFile;
use crate::http::{ApiFault, ApiResult, etag, is_current, save_as};
use crate::limits::{Client, admit};

/// The version is part of the digest, because another version of the program may make another file.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How many stored solutions are damaged and therefore missing in the file.
const LEFT_OUT: HeaderName = HeaderName::from_static("diode-left-out");

/// The length of the file. A browser that gets the file compressed on its way learns the length from nothing else.
const BYTES: HeaderName = HeaderName::from_static("diode-bytes");

/// The licence of all that is in the file. It is a header, because no format has a place that all readers
/// would keep.
const LICENCE: HeaderName = HeaderName::from_static("diode-licence");

/// A file made of everything stored for a hardware.
pub(super) struct Export<'a> {
    pub(super) slug: &'a HardwareSlug,
    /// Everything that the content depends on, except the timings.
    pub(super) form: String,
    /// The file's name when a browser saves it.
    pub(super) name: String,
    pub(super) media: &'static str,
}

impl Export<'_> {
    /// Answers a request for the file. The file is made only if the request is a GET and the client lacks it.
    pub(super) async fn answer(
        self,
        app: &App,
        client: &Client,
        method: &Method,
        asked: &HeaderMap,
        make: impl Future<Output = ApiResult<ExportFile>>,
    ) -> ApiResult<Response> {
        let state = app.backend.store.hardware_state(self.slug).await?;
        let state = state.filter(|state| !state.is_empty()).ok_or_else(|| {
            ApiFault::not_found(format!("nothing has been uploaded for `{}` yet", self.slug))
        })?;
        let made_of = format!("{VERSION}\n{}\n{state}\n{}\n{}", self.slug, self.name, self.form);
        let digest = Digest::of(made_of.as_bytes());
        let tag = etag(&digest);
        // The data may grow, so clients must ask each time whether the file has changed.
        let caching =
            [(header::ETAG, tag.clone()), (header::CACHE_CONTROL, HeaderValue::from_static("no-cache"))];
        if is_current(asked, &tag) {
            return Ok((StatusCode::NOT_MODIFIED, caching).into_response());
        }
        let head = [
            (header::CONTENT_TYPE, HeaderValue::from_static(self.media)),
            (header::CONTENT_DISPOSITION, save_as(&self.name)?),
            (LICENCE, HeaderValue::from_static(DATA_LICENCE)),
        ];
        if method == Method::HEAD {
            // The length is not known before the file is made.
            let body = Body::from_stream(stream::empty::<Result<Vec<u8>, std::io::Error>>());
            return Ok((caching, head, body).into_response());
        }
        let left = match app.policy().limits.exports() {
            Some(rate) => Some(admit(app, &format!("{} of {}", rate.name, client.0), &rate).await?),
            None => None,
        };
        let file = app.exports.file(&digest, make).await?;
        if app.backend.store.hardware_state(self.slug).await?.as_ref() != Some(&state) {
            // The timings changed while the file was made, so the file may have more than its digest stands for.
            app.exports.forget(&digest);
            let bytes = [(BYTES, HeaderValue::from(file.bytes.len()))];
            return Ok(([(header::CACHE_CONTROL, "no-store")], head, bytes, file.bytes).into_response());
        }
        let bytes = [(BYTES, HeaderValue::from(file.bytes.len()))];
        let mut response = (caching, head, bytes, file.bytes).into_response();
        if let Some(left) = left {
            left.tell(response.headers_mut());
        }
        if file.left_out > 0 {
            response.headers_mut().insert(LEFT_OUT, file.left_out.into());
        }
        Ok(response)
    }
}
