//! How long answers took.

use std::fmt;
use std::time::Duration;

#[derive(Default)]
pub(crate) struct Answers {
    times: Vec<Duration>,
    /// Answers with an unexpected status, and requests without an answer.
    pub(crate) failed: usize,
}

impl Answers {
    pub(crate) fn add(&mut self, took: Duration) {
        self.times.push(took);
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.times.extend(other.times);
        self.failed += other.failed;
    }

    pub(crate) fn count(&self) -> usize {
        self.times.len()
    }

    fn at(&self, share: f64) -> f64 {
        let place = (self.times.len() as f64 * share) as usize;
        let time = self.times.get(place.min(self.times.len().saturating_sub(1)));
        time.map_or(f64::NAN, |time| 1e3 * time.as_secs_f64())
    }

    /// Sorts the times, as the figures need them.
    pub(crate) fn sorted(mut self) -> Self {
        self.times.sort_unstable();
        self
    }
}

/// Needs sorted times.
impl fmt::Display for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (p50, p99, longest) = (self.at(0.5), self.at(0.99), self.at(1.0));
        write!(f, "p50 {p50:.2} ms, p99 {p99:.2} ms, longest {longest:.1} ms")?;
        if self.failed > 0 {
            write!(f, "; {} FAILED", self.failed)?;
        }
        Ok(())
    }
}
