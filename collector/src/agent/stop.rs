use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use crate::interrupt::Interrupt;

/// When an agent is to end.
pub(crate) struct Stop {
    interrupt: Interrupt,
    /// How long the problem in hand may still take.
    grace: Duration,
    since: OnceLock<Instant>,
}

impl Stop {
    pub(crate) fn new(interrupt: Interrupt, grace: Duration) -> Self {
        Self { interrupt, grace, since: OnceLock::new() }
    }

    /// The agent is to end: nothing new is begun.
    pub(crate) fn requested(&self) -> bool {
        let requested = self.interrupt.requested();
        if requested {
            self.since.get_or_init(Instant::now);
        }
        requested
    }

    /// The agent is to end now: what is in hand is dropped.
    pub(crate) fn insisted(&self) -> bool {
        self.requested()
            && (self.interrupt.insisted()
                || self.since.get().is_some_and(|since| since.elapsed() > self.grace))
    }

    /// Waits, but not longer than until the agent is to end.
    pub(crate) fn sleep(&self, time: Duration) {
        /// How soon a signal is heeded.
        const STEP: Duration = Duration::from_millis(100);
        let until = Instant::now() + time;
        while !self.requested() && Instant::now() < until {
            thread::sleep(STEP.min(until.saturating_duration_since(Instant::now())));
        }
    }
}
