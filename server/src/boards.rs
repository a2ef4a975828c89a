//! Boards: what was measured, ranked. `consensus` computes an entry from the solutions of a view, `entry_store` keeps
//! it, and the routes answer with leaderboards, problems, picks, tables and datasets.
//! Here the entries that uploads have left for later are recomputed, and the database's own statistics kept up to date.

pub(crate) mod board_routes;
pub(crate) mod board_store;
pub(crate) mod consensus;
pub(crate) mod entry_store;
pub(crate) mod export_cache;
pub(crate) mod export_routes;
pub(crate) mod findings;
pub(crate) mod hardware_store;
pub(crate) mod listed;
pub(crate) mod pick_routes;
pub(crate) mod problem_routes;
pub(crate) mod summary_store;
pub(crate) mod survey_store;

use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::backend::Backend;
use crate::store::StoreResult;

/// How long this work waits for uploads. While uploads arrive one after the other, this work gets half of the time.
const LET_UPLOADS_PASS: Duration = Duration::from_millis(500);

/// How often to look for work when there was none.
const IDLE: Duration = Duration::from_secs(1);

/// How often the database looks for tables that have grown.
const COUNT_EVERY: Duration = Duration::from_secs(2);

/// How long to wait after a failure of the database.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Works until `stopping` turns true or its sender is gone.
pub async fn run(backend: Backend, mut stopping: watch::Receiver<bool>) {
    let mut counted: Option<Instant> = None;
    loop {
        let began = Instant::now();
        if counted.is_none_or(|at| at.elapsed() >= COUNT_EVERY) {
            // Without the counts, pages are slower but still right.
            if let Err(error) = backend.store.count_grown_tables().await {
                tracing::warn!("tables that have grown could not be counted: {error}");
            }
            counted = Some(Instant::now());
        }
        tokio::select! {
            () = backend.storing.pause(LET_UPLOADS_PASS) => {}
            _ = stopping.wait_for(|stop| *stop) => return,
        }
        let wait = match refresh_for(&backend, began.elapsed()).await {
            // Goes on at once; uploads that wait for the database have their turn above.
            Ok(1..) => Duration::ZERO,
            Ok(0) => IDLE,
            Err(error) => {
                tracing::error!("board entries could not be refreshed: {error}");
                RETRY_AFTER
            }
        };
        tokio::task::yield_now().await;
        if tokio::time::timeout(wait, stopping.wait_for(|stop| *stop)).await.is_ok() {
            return;
        }
    }
}

/// Works for about as long as it has waited for uploads, so that it makes progress however many uploads arrive. Returns
/// how much the last round did.
async fn refresh_for(backend: &Backend, time: Duration) -> StoreResult<usize> {
    let began = Instant::now();
    loop {
        let done = backend.store.refresh_entries().await?;
        if done == 0 || began.elapsed() >= time {
            return Ok(done);
        }
    }
}
