use axum::http::StatusCode;

use super::tracer::Recorded;

/// The span of a request or a job. It ends when it is dropped, also if a client has gone.
pub(crate) struct Span(Option<Recorded>);

impl Span {
    pub(super) fn of(recorded: Option<Recorded>) -> Self {
        Self(recorded)
    }

    /// Ends the span with the status of an answer. An error of the client does not count as a failure.
    pub(crate) fn answered(self, status: StatusCode) {
        let Some(mut recorded) = self.0 else { return };
        recorded.note("http.response.status_code", i64::from(status.as_u16()));
        if status.is_server_error() {
            recorded.failed(status.to_string());
        }
    }

    /// Ends the span with the outcome of the job.
    pub(crate) fn ended(self, outcome: &'static str, failure: Option<String>) {
        let Some(mut recorded) = self.0 else { return };
        recorded.note("outcome", outcome);
        if let Some(failure) = failure {
            recorded.failed(failure);
        }
    }
}
