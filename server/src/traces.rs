//! Spans of requests and jobs, for a collector that speaks OpenTelemetry's protocol.
//!
//! These spans are not copies of the spans in the log. They have a kind, a parent from another program and a
//! name by their route, for which lines of a log have no place.

mod layer;
mod span;
// Without the feature, settings that name a collector are refused when the server starts.
#[cfg(feature = "traces")]
mod sender;
#[cfg_attr(not(feature = "traces"), path = "absent.rs")]
mod tracer;

use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use diode_api::Job;

pub(crate) use layer::{Asked, traced};
pub(crate) use span::Span;
use tracer::Tracer;

use crate::settings::OtlpEndpoint;

/// How long the last spans of a process may take. A supervisor must wait for running requests, and then this
/// long.
const LAST_SPANS: Duration = Duration::from_secs(3);

/// Makes spans, and sends them in the background. No request waits for the collector. The default makes no
/// spans.
#[derive(Clone, Default)]
pub struct Traces(Option<Arc<Tracer>>);

impl Traces {
    /// Sends spans to a collector, which may be away.
    pub fn to(endpoint: &OtlpEndpoint) -> anyhow::Result<Self> {
        Ok(Self(Some(Arc::new(Tracer::new(endpoint)?))))
    }

    /// Begins the span of a request. It belongs to the trace that the request's headers name, if any.
    pub(crate) fn request(&self, asked: &Asked<'_>, headers: &HeaderMap) -> Span {
        Span::of(self.0.as_deref().map(|tracer| tracer.request(asked, headers)))
    }

    /// Begins the span of a job that this process works on.
    pub(crate) fn job(&self, job: &Job) -> Span {
        Span::of(self.0.as_deref().map(|tracer| tracer.job(job)))
    }

    /// Sends the spans that are left, and ends. Later spans are lost.
    pub async fn end(self) {
        let Some(tracer) = self.0 else { return };
        let ended = tokio::task::spawn_blocking(move || tracer.end(LAST_SPANS)).await;
        if let Ok(Err(error)) = ended {
            tracing::warn!("the last spans may not have been sent: {error}");
        }
    }
}
