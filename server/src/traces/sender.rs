//! Sends spans to the collector.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use ureq::Agent;

use crate::settings::OtlpEndpoint;

/// How long a batch may take. Meanwhile spans are queued. When the queue is full, spans are dropped.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Answers are empty, or say in a line what was refused.
const MAX_ANSWER: u64 = 64 << 10;

/// Sends batches. Logs once when they stop arriving, and once when they arrive again.
#[derive(Debug)]
pub(super) struct Sender {
    agent: Agent,
    endpoint: OtlpEndpoint,
    is_failing: AtomicBool,
}

impl Sender {
    pub(super) fn new(endpoint: &OtlpEndpoint) -> Self {
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_global(Some(TIMEOUT))
            .build()
            .into();
        Self { agent, endpoint: endpoint.clone(), is_failing: AtomicBool::new(false) }
    }

    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ureq::Error> {
        let (head, body) = request.into_parts();
        let (head, mut body) = self.agent.run(Request::from_parts(head, &body[..]))?.into_parts();
        let body = body.with_config().limit(MAX_ANSWER).read_to_vec()?;
        Ok(Response::from_parts(head, body.into()))
    }

    fn tell(&self, failure: Option<String>) {
        let was_failing = self.is_failing.swap(failure.is_some(), Ordering::Relaxed);
        let endpoint = &self.endpoint;
        match failure {
            Some(failure) if !was_failing => {
                tracing::warn!("spans do not reach the collector at {endpoint} and are lost: {failure}");
            }
            None if was_failing => tracing::info!("spans reach the collector at {endpoint} again"),
            _ => {}
        }
    }
}

#[async_trait]
impl HttpClient for Sender {
    /// Blocks the calling thread, which has nothing else to do.
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.send(request);
        self.tell(match &answer {
            Ok(answer) if answer.status().is_success() => None,
            Ok(answer) => Some(format!("it answered {}", answer.status())),
            Err(error) => Some(error.to_string()),
        });
        Ok(answer?)
    }
}
