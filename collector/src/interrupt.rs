//! Ctrl-C ends work at the next good moment instead of in the middle of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context;

/// How often the user has asked to stop.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt(Arc<AtomicUsize>);

impl Interrupt {
    /// Catches Ctrl-C and SIGTERM from now on. Once per process.
    pub(crate) fn install() -> anyhow::Result<Self> {
        let interrupt = Self::default();
        let requests = interrupt.0.clone();
        ctrlc::set_handler(move || {
            requests.fetch_add(1, Ordering::Relaxed);
        })
        .context("cannot catch Ctrl-C")?;
        Ok(interrupt)
    }

    /// Asked to stop: finish what is in hand.
    pub(crate) fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// Asked more than once: drop what is in hand.
    pub(crate) fn insisted(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 1
    }
}
