//! Recomputes the board entries that uploads have left for later.

use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::backend::Backend;
use crate::store::StoreResult;

/// How long uploads go first. While they arrive one after the other, half of the time is for this work.
const LET_UPLOADS_PASS: Duration = Duration::from_millis(500);

/// How often to look when there was nothing to do.
const IDLE: Duration = Duration::from_secs(1);

/// How long to wait after a failure of the database.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Works until `stopping` turns true or its sender is gone.
pub async fn run(backend: Backend, mut stopping: watch::Receiver<bool>) {
    loop {
        let began = Instant::now();
        tokio::select! {
            () = backend.storing.pause(LET_UPLOADS_PASS) => {}
            _ = stopping.wait_for(|stop| *stop) => return,
        }
        let wait = match refresh_for(&backend, began.elapsed()).await {
            // Uploads that wait for the database get their turn.
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

/// Works for about as long as uploads were let pass: however many follow each other, the work comes to its end. Returns
/// what the last round did.
async fn refresh_for(backend: &Backend, time: Duration) -> StoreResult<usize> {
    let began = Instant::now();
    loop {
        let done = backend.store.refresh_entries().await?;
        if done == 0 || began.elapsed() >= time {
            return Ok(done);
        }
    }
}
