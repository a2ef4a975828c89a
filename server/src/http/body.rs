//! Reading the body of a request, up to a limit.

use std::error::Error;
use std::iter::successors;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::http::HeaderMap;
use headers::{ContentLength, HeaderMapExt as _};
use http_body_util::LengthLimitError;
use serde::de::DeserializeOwned;
use tower_http::timeout::{TimeoutBody, TimeoutError};

use super::{ApiFault, ApiResult};

/// Why a body was not read to its end.
pub(crate) enum BodyError {
    TooLong,
    /// Nothing arrived for the time given.
    Stalled,
    BrokeOff(axum::Error),
}

/// Reads a body, and stops as soon as it is too long or stalls.
pub(crate) async fn read_body(
    headers: &HeaderMap,
    body: Body,
    limit: usize,
    max_stall: Duration,
) -> Result<Bytes, BodyError> {
    let claimed = headers.typed_get::<ContentLength>();
    if claimed.is_some_and(|ContentLength(length)| length > limit as u64) {
        return Err(BodyError::TooLong);
    }
    let body = Body::new(TimeoutBody::new(max_stall, body));
    to_bytes(body, limit).await.map_err(|error| {
        let causes = || successors(Some(&error as &(dyn Error + 'static)), |&cause| cause.source());
        if causes().any(|cause| cause.is::<LengthLimitError>()) {
            BodyError::TooLong
        } else if causes().any(|cause| cause.is::<TimeoutError>()) {
            BodyError::Stalled
        } else {
            BodyError::BrokeOff(error)
        }
    })
}

/// A small JSON document in the body of a request.
pub(crate) async fn json_body<T: DeserializeOwned>(body: Body) -> ApiResult<T> {
    /// No request but an upload is longer.
    const MAX_BYTES: usize = 64 * 1024;
    let bytes = to_bytes(body, MAX_BYTES).await;
    let bytes = bytes.map_err(|_| {
        ApiFault::too_large(format!("the body could not be read or exceeds {MAX_BYTES} bytes"))
    })?;
    serde_json::from_slice(&bytes)
        .map_err(|error| ApiFault::invalid(format!("the body is not the JSON expected here: {error}")))
}
