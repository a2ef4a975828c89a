use std::sync::Arc;

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use diode_core::Invalid;
use diode_core::api::ApiError;
use diode_formats::FormatError;

use crate::blobs::BlobError;
use crate::ingest::IngestError;
use crate::solutions::Damaged;
use crate::store::StoreError;

/// An answer that says why a request failed. The JSON body is always the same.
#[derive(Debug)]
pub(crate) struct ApiFault {
    status: StatusCode,
    code: &'static str,
    message: String,
    /// For the log; users do not see it.
    cause: Option<Arc<anyhow::Error>>,
}

/// An extension of the response: the layer that logs it knows the request's id.
#[derive(Clone)]
pub(super) struct Cause(pub(super) Arc<anyhow::Error>);

impl ApiFault {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), cause: None }
    }

    /// The request cannot be understood.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", message)
    }

    /// There is no such thing; the message says where to look.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    pub(crate) fn method_not_allowed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
    }

    pub(crate) fn unsupported_media(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
    }

    /// The request is understood, but its content is not acceptable.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "refused", message)
    }

    /// The server's own failure.
    pub(crate) fn internal(cause: impl Into<anyhow::Error>) -> Self {
        let message = "something went wrong on the server and has been logged";
        let fault = Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message);
        Self { cause: Some(Arc::new(cause.into())), ..fault }
    }

    fn unavailable(cause: impl Into<anyhow::Error>) -> Self {
        let message = "the database does not answer at the moment; try again in a few seconds";
        let fault = Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message);
        Self { cause: Some(Arc::new(cause.into())), ..fault }
    }
}

impl From<Invalid> for ApiFault {
    fn from(error: Invalid) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<StoreError> for ApiFault {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) => Self::unavailable(error),
            StoreError::Sql(_)
            | StoreError::Migrate(_)
            | StoreError::Url { .. }
            | StoreError::Damaged(_)
            | StoreError::Task(_) => Self::internal(error),
        }
    }
}

impl From<Damaged> for ApiFault {
    fn from(error: Damaged) -> Self {
        Self::internal(error)
    }
}

impl From<BlobError> for ApiFault {
    fn from(error: BlobError) -> Self {
        Self::internal(error)
    }
}

impl From<tokio::task::JoinError> for ApiFault {
    fn from(error: tokio::task::JoinError) -> Self {
        Self::internal(error)
    }
}

impl From<FormatError> for ApiFault {
    fn from(error: FormatError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<IngestError> for ApiFault {
    fn from(error: IngestError) -> Self {
        match error {
            IngestError::Format(error) => error.into(),
            IngestError::Refused(invalid) => Self::refused(invalid.to_string()),
            IngestError::Store(error) => error.into(),
            IngestError::Blob(error) => error.into(),
            IngestError::Task(error) => error.into(),
        }
    }
}

impl IntoResponse for ApiFault {
    fn into_response(self) -> Response {
        let body = ApiError { code: self.code.to_owned(), message: self.message };
        let mut response = (self.status, Json(body)).into_response();
        if let Some(cause) = self.cause {
            response.extensions_mut().insert(Cause(cause));
        }
        response
    }
}
