use std::sync::Arc;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use diode_core::Invalid;
use diode_core::api::ApiError;
use diode_formats::FormatError;

use crate::blobs::{BlobError, Trouble, is_full};
use crate::contributions::NotTaken;
use crate::ingest::IngestError;
use crate::limits::Left;
use crate::store::StoreError;

/// An answer that says why a request failed. The JSON body is always the same.
#[derive(Debug, Clone)]
pub(crate) struct ApiFault {
    status: StatusCode,
    code: &'static str,
    message: String,
    /// Seconds after which trying again may help.
    retry_after: Option<u32>,
    /// The limit that was reached.
    left: Option<Left>,
    /// For the log; users do not see it.
    cause: Option<Arc<anyhow::Error>>,
}

/// An extension of the response: the layer that logs it knows the request's id.
#[derive(Clone)]
pub(super) struct Cause(pub(super) Arc<anyhow::Error>);

impl ApiFault {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), retry_after: None, left: None, cause: None }
    }

    /// The request cannot be understood.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", message)
    }

    /// The request needs an account and has none.
    pub(crate) fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }

    /// The account may not do this, or the request comes from a page of another site.
    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    /// Nobody has agreed to the terms of contributing for what is sent.
    pub(crate) fn terms_not_agreed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "terms_not_agreed", message)
    }

    /// It agrees to other terms than those in force.
    pub(crate) fn terms_changed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "terms_changed", message)
    }

    /// What was asked for belongs to somebody else.
    pub(crate) fn taken(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "taken", message)
    }

    /// The user has not answered yet; the name and status are those of RFC 8628.
    pub(crate) fn authorization_pending() -> Self {
        let message = "nobody has allowed this program yet; ask again in a few seconds";
        Self::new(StatusCode::BAD_REQUEST, "authorization_pending", message)
    }

    /// It was tried too often; it may be tried again when the window ends.
    pub(crate) fn tried_too_often(message: impl Into<String>, left: Left) -> Self {
        Self { retry_after: Some(left.reset()), left: Some(left), ..Self::too_many(message) }
    }

    /// The program is too old.
    pub(super) fn upgrade(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UPGRADE_REQUIRED, "program_too_old", message)
    }

    /// There is no such thing; the message says where to look.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// It was there, and is gone for good.
    pub(crate) fn removed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "removed", message)
    }

    /// The file has no such part.
    pub(crate) fn no_such_range(message: impl Into<String>) -> Self {
        Self::new(StatusCode::RANGE_NOT_SATISFIABLE, "no_such_range", message)
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

    /// The client sends more slowly than others can wait for.
    pub(crate) fn too_slow(what: &str) -> Self {
        let message = format!("{what} arrived too slowly, expected steady data; send it again");
        Self::new(StatusCode::REQUEST_TIMEOUT, "too_slow", message)
    }

    /// The request is meant for another server.
    pub(crate) fn misdirected(message: impl Into<String>) -> Self {
        Self::new(StatusCode::MISDIRECTED_REQUEST, "misdirected", message)
    }

    /// The request does not fit the present state.
    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", message)
    }

    /// Something that the request needs was deleted while it ran.
    fn gone(cause: impl Into<anyhow::Error>) -> Self {
        Self::conflict("the account, or what else the request refers to, was deleted meanwhile")
            .because(cause)
    }

    /// There are as many as may be; trying again later may help.
    pub(crate) fn too_many(message: impl Into<String>) -> Self {
        let fault = Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many", message);
        Self { retry_after: Some(60), ..fault }
    }

    /// All turns are taken.
    pub(crate) fn busy(message: impl Into<String>) -> Self {
        let fault = Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message);
        Self { retry_after: Some(10), ..fault }
    }

    /// What the request needs cannot be used for some seconds.
    pub(crate) fn away(
        message: impl Into<String>,
        retry_after: u32,
        cause: impl Into<anyhow::Error>,
    ) -> Self {
        let fault = Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message);
        Self { retry_after: Some(retry_after), ..fault }.because(cause)
    }

    /// The same, and the log tells why.
    pub(crate) fn because(self, cause: impl Into<anyhow::Error>) -> Self {
        Self { cause: Some(Arc::new(cause.into())), ..self }
    }

    /// Nothing more can be stored.
    pub(crate) fn full(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INSUFFICIENT_STORAGE, "insufficient_storage", message)
    }

    fn disk_full(cause: impl Into<anyhow::Error>) -> Self {
        Self::full("the server's disk is full, so nothing was stored; its operator must make room")
            .because(cause)
    }

    /// A file could not be written.
    pub(crate) fn unwritable(error: std::io::Error) -> Self {
        if is_full(&error) { Self::disk_full(error) } else { Self::blobs_unavailable(error) }
    }

    fn blobs_unavailable(cause: impl Into<anyhow::Error>) -> Self {
        Self::away("the server's files cannot be used at the moment; try again later", 10, cause)
    }

    /// The server's own failure.
    pub(crate) fn internal(cause: impl Into<anyhow::Error>) -> Self {
        let message = "something went wrong on the server and has been logged";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message).because(cause)
    }

    /// What users see.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    fn unavailable(cause: impl Into<anyhow::Error>) -> Self {
        Self::away("the database does not answer at the moment; try again in a few seconds", 5, cause)
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
            StoreError::Unavailable(_) | StoreError::Merged(_) => Self::unavailable(error),
            StoreError::Full(_) => Self::disk_full(error),
            StoreError::Gone(_) => Self::gone(error),
            StoreError::Sql(_)
            | StoreError::Migrate(_)
            | StoreError::Url { .. }
            | StoreError::Damaged(_)
            | StoreError::Task(_) => Self::internal(error),
        }
    }
}

impl From<BlobError> for ApiFault {
    fn from(error: BlobError) -> Self {
        match error.trouble() {
            Trouble::Full => Self::disk_full(error),
            Trouble::Unavailable => Self::blobs_unavailable(error),
            // A row names the blob, so what is kept is not what it should be.
            Trouble::Missing => Self::internal(error),
        }
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
            IngestError::Full(_) => Self::full(error.to_string()),
            IngestError::Store(error) => error.into(),
            IngestError::Blob(error) => error.into(),
            IngestError::Task(error) => error.into(),
        }
    }
}

impl From<NotTaken> for ApiFault {
    fn from(error: NotTaken) -> Self {
        match error {
            NotTaken::Model(error) => Self::refused(error.to_string()),
            NotTaken::Refused(why) => Self::refused(why),
            NotTaken::Store(error) => error.into(),
            NotTaken::Json(error) => Self::internal(error),
        }
    }
}

/// What a client sent may be part of a message; no more of it goes back than people read.
fn shortened(mut message: String) -> String {
    const MAX_CHARS: usize = 1000;
    if let Some((end, _)) = message.char_indices().nth(MAX_CHARS) {
        message.truncate(end);
        message.push('…');
    }
    message
}

impl IntoResponse for ApiFault {
    fn into_response(self) -> Response {
        let body = ApiError { code: self.code.to_owned(), message: shortened(self.message) };
        let mut response = (self.status, Json(body)).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        if let Some(left) = self.left {
            left.tell(response.headers_mut());
        }
        if let Some(cause) = self.cause {
            response.extensions_mut().insert(Cause(cause));
        }
        response
    }
}
