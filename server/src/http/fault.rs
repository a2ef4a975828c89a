use std::sync::Arc;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use diode_api::ApiError;
use diode_core::Invalid;
use diode_formats::FormatError;

use crate::blobs::{BlobError, Trouble, is_full};
use crate::limits::Left;
use crate::models::contribution_routes::NotTaken;
use crate::store::StoreError;
use crate::uploads::ingest::IngestError;

/// An answer that says why a request failed. Its JSON body always has the same form.
#[derive(Debug, Clone)]
pub(crate) struct ApiFault {
    status: StatusCode,
    code: &'static str,
    message: String,
    /// After how many seconds trying again may help.
    retry_after: Option<u32>,
    /// The limit that was reached, if any.
    left: Option<Left>,
    /// The cause, for the log. Users do not see it.
    cause: Option<Arc<anyhow::Error>>,
}

/// An extension of the response, for the layer that writes causes to the log with the request's id.
#[derive(Clone)]
pub(super) struct Cause(pub(super) Arc<anyhow::Error>);

impl ApiFault {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), retry_after: None, left: None, cause: None }
    }

    /// The same error for the command line, which shows the cause.
    pub(crate) fn into_error(self) -> anyhow::Error {
        match self.cause {
            Some(cause) => anyhow::anyhow!("{cause:#}"),
            None => anyhow::anyhow!(self.message),
        }
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

    /// Nobody has agreed to the terms of contributing for this contribution.
    pub(crate) fn terms_not_agreed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "terms_not_agreed", message)
    }

    /// The request agrees to another version of the terms than the one in force.
    pub(crate) fn terms_changed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "terms_changed", message)
    }

    /// The name or identity belongs to somebody else.
    pub(crate) fn taken(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "taken", message)
    }

    /// The user has not answered yet. RFC 8628 gives the name and the status.
    pub(crate) fn authorization_pending() -> Self {
        let message = "nobody has allowed this program yet; ask again in a few seconds";
        Self::new(StatusCode::BAD_REQUEST, "authorization_pending", message)
    }

    /// The caller has tried too often, and may try again when the window ends.
    pub(crate) fn tried_too_often(message: impl Into<String>, left: Left) -> Self {
        Self { retry_after: Some(left.reset()), left: Some(left), ..Self::too_many(message) }
    }

    /// The caller's program is too old.
    pub(super) fn upgrade(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UPGRADE_REQUIRED, "program_too_old", message)
    }

    /// The thing does not exist. The message says where to look.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// The thing existed, and is gone for good.
    pub(crate) fn removed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "removed", message)
    }

    /// The file does not have the part that was asked for.
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

    /// The client sends so slowly that others would have to wait.
    pub(crate) fn too_slow(what: &str) -> Self {
        let message = format!("{what} arrived too slowly, expected steady data; send it again");
        Self::new(StatusCode::REQUEST_TIMEOUT, "too_slow", message)
    }

    /// The request is meant for another server.
    pub(crate) fn misdirected(message: impl Into<String>) -> Self {
        Self::new(StatusCode::MISDIRECTED_REQUEST, "misdirected", message)
    }

    /// The request conflicts with the present state.
    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", message)
    }

    /// Something that the request needs was deleted while it ran.
    fn gone(cause: impl Into<anyhow::Error>) -> Self {
        Self::conflict("the account, or what else the request refers to, was deleted meanwhile")
            .because(cause)
    }

    /// The most that may exist has been reached. Trying again later may help.
    pub(crate) fn too_many(message: impl Into<String>) -> Self {
        let fault = Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many", message);
        Self { retry_after: Some(60), ..fault }
    }

    /// All turns are taken.
    pub(crate) fn busy(message: impl Into<String>) -> Self {
        let fault = Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message);
        Self { retry_after: Some(10), ..fault }
    }

    /// The database, the storage or another service cannot be used for some seconds.
    pub(crate) fn away(
        message: impl Into<String>,
        retry_after: u32,
        cause: impl Into<anyhow::Error>,
    ) -> Self {
        let fault = Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message);
        Self { retry_after: Some(retry_after), ..fault }.because(cause)
    }

    /// The same fault with a cause, which goes to the log.
    pub(crate) fn because(self, cause: impl Into<anyhow::Error>) -> Self {
        Self { cause: Some(Arc::new(cause.into())), ..self }
    }

    /// There is no room to store more.
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

    /// A failure of the server itself.
    pub(crate) fn internal(cause: impl Into<anyhow::Error>) -> Self {
        let message = "something went wrong on the server and has been logged";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message).because(cause)
    }

    /// The message for users.
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
            | StoreError::OtherSchema(_)
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
            // A row names the blob, so stored data was lost or damaged.
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

/// Cuts a message short. It may include what a client sent, of which people need to read only the beginning.
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
