//! Uploads that this process is storing: how many at a time, and what lets them go first.

use std::sync::Arc;
use std::time::Duration;

use diode_core::api::MAX_UPLOAD_TIMINGS;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout, timeout_at};

/// An upload takes up to its limit in memory, and up to 32 bytes for each timing while it is decoded.
const AT_ONCE: u32 = 2;

/// Timings of an upload that is decoded beside another: three times the largest collection in use.
const TIMINGS_BESIDE: usize = MAX_UPLOAD_TIMINGS / 4;

/// How long no upload must have been stored. The next one of many follows sooner.
const QUIET: Duration = Duration::from_millis(100);

/// The uploads that are being stored.
#[derive(Clone)]
pub struct Storing {
    uploads: Arc<watch::Sender<Uploads>>,
    turns: Arc<Semaphore>,
}

#[derive(Default)]
struct Uploads {
    under_way: usize,
    /// When the last one that has ended did.
    ended: Option<Instant>,
}

/// One of them, until it is dropped.
pub struct Turn {
    storing: Storing,
    // The semaphore is never closed, so there is always a permit in the end.
    permit: Option<OwnedSemaphorePermit>,
    alone: bool,
}

impl Default for Storing {
    fn default() -> Self {
        Self { uploads: Arc::default(), turns: Arc::new(Semaphore::new(AT_ONCE as usize)) }
    }
}

impl Storing {
    /// Waits until another upload may be decoded and stored.
    pub(crate) async fn turn(&self) -> Turn {
        self.uploads.send_modify(|uploads| uploads.under_way += 1);
        let mut turn = Turn { storing: self.clone(), permit: None, alone: false };
        turn.permit = Arc::clone(&self.turns).acquire_owned().await.ok();
        turn
    }

    /// Waits until no upload is being stored, and none follows, but no longer than given.
    pub(crate) async fn pause(&self, longest: Duration) {
        let mut uploads = self.uploads.subscribe();
        let quiet = async {
            // The sender lives as long as `self`, so it is never gone.
            loop {
                let none = uploads.wait_for(|uploads| uploads.under_way == 0).await;
                let Some(ended) = none.ok().and_then(|uploads| uploads.ended) else { return };
                let next = uploads.wait_for(|uploads| uploads.under_way > 0);
                if timeout_at(ended + QUIET, next).await.is_err() {
                    return;
                }
            }
        };
        let _ = timeout(longest, quiet).await;
    }
}

impl Turn {
    /// How many timings and failures may be decoded in it.
    pub(crate) fn timings(&self) -> usize {
        if self.alone { MAX_UPLOAD_TIMINGS } else { TIMINGS_BESIDE }
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.alone
    }

    /// Waits until no other upload is being decoded, so that it may have as many timings as any.
    pub(crate) async fn alone(&mut self) {
        // Two that each kept a turn would wait for each other.
        self.permit = None;
        self.permit = Arc::clone(&self.storing.turns).acquire_many_owned(AT_ONCE).await.ok();
        self.alone = true;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.storing.uploads.send_modify(|uploads| {
            uploads.under_way -= 1;
            uploads.ended = Some(Instant::now());
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn what_can_wait_waits_for_uploads_but_not_for_ever() {
        let storing = Storing::default();
        storing.pause(LONG).await;
        let (first, second) = (storing.turn().await, storing.turn().await);
        storing.pause(Duration::from_millis(1)).await;
        let pausing = tokio::spawn({
            let storing = storing.clone();
            async move { storing.pause(LONG).await }
        });
        drop(first);
        tokio::time::sleep(3 * QUIET).await;
        assert!(!pausing.is_finished(), "one is still being stored");
        drop(second);
        pausing.await.unwrap();
    }

    #[tokio::test]
    async fn large_uploads_are_alone() {
        let storing = Storing::default();
        let (first, mut second) = (storing.turn().await, storing.turn().await);
        assert_eq!(second.timings(), TIMINGS_BESIDE);
        let alone = tokio::spawn(async move {
            second.alone().await;
            (second.is_alone(), second.timings())
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!alone.is_finished(), "another is being stored");
        drop(first);
        assert_eq!(alone.await.unwrap(), (true, MAX_UPLOAD_TIMINGS));
    }
}
