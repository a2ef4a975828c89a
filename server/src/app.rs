//! The state that every handler shares.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::backend::Backend;

/// An upload takes up to its limit in memory, and many times that while it is
/// decoded. More uploads than this wait.
const UPLOADS_AT_ONCE: usize = 4;

#[derive(Clone)]
pub struct App {
    pub(crate) backend: Backend,
    uploads: Arc<Semaphore>,
    stopping: watch::Receiver<bool>,
}

impl App {
    /// `stopping` turns true when long responses are to end.
    pub fn new(backend: Backend, stopping: watch::Receiver<bool>) -> Self {
        Self { backend, uploads: Arc::new(Semaphore::new(UPLOADS_AT_ONCE)), stopping }
    }

    /// Waits until another upload may be read. The upload counts as long as the
    /// permit is held.
    pub(crate) async fn upload_permit(&self) -> Option<OwnedSemaphorePermit> {
        // The semaphore is never closed, so there is always a permit in the end.
        Arc::clone(&self.uploads).acquire_owned().await.ok()
    }

    /// Waits; `true` as soon as the server is to stop.
    pub(crate) async fn stopping_within(&self, wait: Duration) -> bool {
        let mut stopping = self.stopping.clone();
        // A dropped sender also means that the server stops.
        tokio::time::timeout(wait, stopping.wait_for(|stop| *stop)).await.is_ok()
    }
}
