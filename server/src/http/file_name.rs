use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

use super::{ApiFault, ApiResult};

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
