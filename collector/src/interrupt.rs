//! Lets Ctrl-C end work at the next good moment and not in its middle.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM};

/// The exit code for the last signal that was caught. 0 if there was none.
static LAST: AtomicU8 = AtomicU8::new(0);

/// The exit code of a program that was asked to end before its work was done: 130 after Ctrl-C, 143 after SIGTERM.
pub(crate) fn exit_code() -> u8 {
    match LAST.load(Ordering::Relaxed) {
        0 => 1,
        code => code,
    }
}

/// The user's requests to stop.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt {
    requests: Arc<AtomicUsize>,
    since: Arc<OnceLock<Instant>>,
    /// How long the problem in hand may still take, if that is limited.
    grace: Option<Duration>,
    /// The moment from which everything is as if the user had pressed Ctrl-C.
    deadline: Option<Instant>,
}

impl Interrupt {
    /// Catches Ctrl-C and SIGTERM from now on. `next` says what happens at the first one, and is printed at once. It can
    /// be called once per process.
    pub(crate) fn install(next: &'static str) -> anyhow::Result<Self> {
        /// How often the program looks for a signal.
        const STEP: Duration = Duration::from_millis(20);
        let interrupt = Self::default();
        let requests = interrupt.requests.clone();
        let mut caught = Vec::new();
        for signal in [SIGINT, SIGTERM] {
            let flag = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(signal, flag.clone()).context("cannot catch Ctrl-C")?;
            caught.push((signal, flag));
        }
        thread::spawn(move || {
            loop {
                for (signal, flag) in &caught {
                    if flag.swap(false, Ordering::Relaxed) {
                        // A shell's exit code for a program that a signal has ended.
                        LAST.store(128 + u8::try_from(*signal).unwrap_or(0), Ordering::Relaxed);
                        if requests.fetch_add(1, Ordering::Relaxed) == 0 {
                            say!("{next}");
                        }
                    }
                }
                thread::sleep(STEP);
            }
        });
        Ok(interrupt)
    }

    /// The same interrupt, which also counts as insisted on once `grace` has passed since the first
    /// request.
    pub(crate) fn with_grace(&self, grace: Duration) -> Self {
        Self { grace: Some(grace), ..self.clone() }
    }

    /// The same interrupt, which also counts as requested once `time` has passed, if `time` is
    /// given.
    pub(crate) fn after(&self, time: Option<Duration>) -> Self {
        Self { deadline: time.and_then(|time| Instant::now().checked_add(time)), ..self.clone() }
    }

    /// Whether a request to stop was made. The problem in hand is to be finished.
    pub(crate) fn requested(&self) -> bool {
        let is_over = |deadline| Instant::now() >= deadline;
        let requested = self.requests.load(Ordering::Relaxed) > 0 || self.deadline.is_some_and(is_over);
        if requested {
            self.since.get_or_init(Instant::now);
        }
        requested
    }

    /// Sleeps for this time, or until a request to stop is made if that is sooner.
    pub(crate) fn sleep(&self, time: Duration) {
        /// How often a sleep looks for a request.
        const STEP: Duration = Duration::from_millis(100);
        let until = Instant::now() + time;
        while !self.requested() && Instant::now() < until {
            thread::sleep(STEP.min(until.saturating_duration_since(Instant::now())));
        }
    }

    /// Whether a second request was made, or the first is too long ago. The problem in hand is to
    /// be dropped.
    pub(crate) fn insisted(&self) -> bool {
        let is_over = |grace| self.since.get().is_some_and(|since| since.elapsed() > grace);
        self.requested() && (self.requests.load(Ordering::Relaxed) > 1 || self.grace.is_some_and(is_over))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits for the clock to go on.
    fn until_insisted(interrupt: &Interrupt) {
        while !interrupt.insisted() {
            thread::yield_now();
        }
    }

    #[test]
    fn an_interrupt_requests_when_its_time_is_over() {
        let interrupt = Interrupt::default();
        assert!(!interrupt.after(None).requested() && !interrupt.after(Some(Duration::MAX)).requested());
        assert!(!interrupt.after(Some(Duration::from_secs(100))).requested());
        let over = interrupt.after(Some(Duration::ZERO)).with_grace(Duration::ZERO);
        assert!(over.requested());
        until_insisted(&over);
    }

    #[test]
    fn an_interrupt_insists_when_its_grace_is_over() {
        let interrupt = Interrupt::default();
        let (patient, hasty) =
            (interrupt.with_grace(Duration::from_secs(100)), interrupt.with_grace(Duration::ZERO));
        assert!(!hasty.requested() && !hasty.insisted());
        interrupt.requests.fetch_add(1, Ordering::Relaxed);
        assert!(patient.requested() && !patient.insisted() && !interrupt.insisted());
        assert!(hasty.requested());
        until_insisted(&hasty);
        interrupt.requests.fetch_add(1, Ordering::Relaxed);
        assert!(patient.insisted());
    }
}
