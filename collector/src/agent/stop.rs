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

    /// Whether the agent is to end. If so, nothing new is begun.
    pub(crate) fn requested(&self) -> bool {
        let requested = self.interrupt.requested();
        if requested {
            self.since.get_or_init(Instant::now);
        }
        requested
    }

    /// Whether the agent is to end now. If so, the problem in hand is dropped.
    pub(crate) fn insisted(&self) -> bool {
        self.requested()
            && (self.interrupt.insisted()
                || self.since.get().is_some_and(|since| since.elapsed() > self.grace))
    }

    /// Sleeps for this time, or until the agent is to end if that is sooner.
    pub(crate) fn sleep(&self, time: Duration) {
        /// How often a sleep looks for a signal.
        const STEP: Duration = Duration::from_millis(100);
        let until = Instant::now() + time;
        while !self.requested() && Instant::now() < until {
            thread::sleep(STEP.min(until.saturating_duration_since(Instant::now())));
        }
    }
}
