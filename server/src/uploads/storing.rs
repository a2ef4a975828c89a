//! The uploads that this process is storing. Limits their number, and lets other work wait for them.

use std::sync::Arc;
use std::time::Duration;

use diode_api::MAX_UPLOAD_TIMINGS;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout, timeout_at};

/// How many uploads are stored at a time. Each takes memory for its bytes and, while it is decoded, up to 32
/// bytes for each timing.
const AT_ONCE: u32 = 2;

/// The most timings of an upload that is decoded beside another one: three times the largest collection in
/// use.
const TIMINGS_BESIDE: usize = MAX_UPLOAD_TIMINGS / 4;

/// The time without an upload after which other work goes on. Uploads that arrive one after the other leave
/// shorter gaps.
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
    /// When an upload last ended.
    ended: Option<Instant>,
}

/// The turn of one upload, which lasts until it is dropped.
pub struct Turn {
    storing: Storing,
    // The semaphore is never closed, so this always gets a permit at last.
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

    /// Waits until no upload is being stored and no further upload begins, but at most for `longest`.
    pub(crate) async fn pause(&self, longest: Duration) {
        let mut uploads = self.uploads.subscribe();
        let quiet = async {
            // The sender lives as long as `self`, so the channel is never closed.
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
    /// How many timings and failures may be decoded in this turn.
    pub(crate) fn timings(&self) -> usize {
        if self.alone { MAX_UPLOAD_TIMINGS } else { TIMINGS_BESIDE }
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.alone
    }

    /// Waits until no other upload is being decoded. Then this upload may have as many timings as any upload
    /// may.
    pub(crate) async fn alone(&mut self) {
        // Two uploads that each kept their permit would deadlock.
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
mod storing_tests {
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
