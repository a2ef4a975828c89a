//! Whether the server can do its work. Finding out writes to the database and to the storage, so it is remembered for a
//! moment: however many ask, the storage is asked seldom, and by one at a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::backend::Backend;
use crate::http::ApiResult;

/// A supervisor asks every few seconds; nobody needs to know it sooner.
const LASTS: Duration = Duration::from_secs(2);

/// What was found, and when.
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
    /// What was found holds for so long.
    pub(crate) fn lasting(lasts: Duration) -> Self {
        Self { lasts, last: Arc::default() }
    }

    /// Fails if the database or the blobs cannot be written to.
    pub(crate) async fn of(&self, backend: &Backend) -> ApiResult<()> {
        // Whoever waits here finds what the one before has found.
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
