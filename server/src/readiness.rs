//! Whether the server can do its work. A check writes to the database and to the storage. Its result is kept for a
//! moment, so that the storage is checked rarely and by one request at a time, however many requests ask.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::State;
use tokio::sync::Mutex;

use crate::accounts::Peer;
use crate::app::App;
use crate::backend::Backend;
use crate::http::ApiResult;

/// How old a result may be: a supervisor asks only every few seconds.
const LASTS: Duration = Duration::from_secs(2);

/// The result of a check, and its time.
struct Found {
    at: Instant,
    outcome: ApiResult<()>,
}

#[derive(Clone)]
pub(crate) struct Readiness {
    lasts: Duration,
    last: Arc<Mutex<Option<Found>>>,
}

impl Default for Readiness {
    fn default() -> Self {
        Self::lasting(LASTS)
    }
}

impl Readiness {
    /// Keeps each result for `lasts`.
    pub(crate) fn lasting(lasts: Duration) -> Self {
        Self { lasts, last: Arc::default() }
    }

    /// Fails if the database or the blobs cannot be written to.
    pub(crate) async fn of(&self, backend: &Backend) -> ApiResult<()> {
        // Requests that waited here use the result of the request before them.
        let mut last = self.last.lock().await;
        if let Some(Found { at, outcome }) = last.as_ref()
            && at.elapsed() < self.lasts
        {
            return outcome.clone();
        }
        let outcome = probe(backend).await;
        *last = Some(Found { at: Instant::now(), outcome: outcome.clone() });
        outcome
    }
}

async fn probe(backend: &Backend) -> ApiResult<()> {
    backend.store.probe().await?;
    Ok(backend.blobs.probe().await?)
}

/// The header in which `/healthz` says as whose address a request counts, so that a wrong proxy is noticed.
pub(crate) const SEEN_FROM: &str = "diode-seen-from";

/// Answers if the process is alive.
pub(crate) async fn healthz(Peer(address): Peer) -> ([(&'static str, String); 1], &'static str) {
    ([(SEEN_FROM, address)], "ok\n")
}

/// Answers if the process can do its work: it can write to the database and store blobs.
pub(crate) async fn readyz(State(app): State<App>) -> ApiResult<&'static str> {
    app.readiness.of(&app.backend).await?;
    Ok("ok\n")
}
