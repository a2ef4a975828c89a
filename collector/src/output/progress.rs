//! Progress on stderr: a bar on a terminal, otherwise a plain line now and then.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::log;

/// The time between plain lines. A log should stay readable.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// The progress of one long job.
pub(crate) struct Progress {
    bar: ProgressBar,
    unit: &'static str,
    began: Instant,
    last_line: Instant,
    done: u64,
    total: u64,
}

impl Progress {
    pub(crate) fn new(total: u64, unit: &'static str) -> Self {
        let is_terminal = std::io::stderr().is_terminal() && !log::is_json();
        let bar = if is_terminal { ProgressBar::new(total) } else { ProgressBar::hidden() };
        let template = "{bar:24} {pos}/{len} {prefix} · {eta} left · {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_prefix(unit);
        let now = Instant::now();
        Self { bar, unit, began: now, last_line: now, done: 0, total }
    }

    /// Sets how much is done, with a message about it.
    pub(crate) fn set(&mut self, done: u64, message: &str) {
        self.done = done;
        if !self.bar.is_hidden() {
            self.bar.set_position(done);
            self.bar.set_message(message.to_owned());
        } else if self.last_line.elapsed() >= LINE_EVERY {
            self.last_line = Instant::now();
            let left = self.left().map_or(String::new(), |left| format!(" · about {} left", in_words(left)));
            say!("{done}/{} {}{left} · {message}", self.total, self.unit);
        }
    }

    /// Prints a line that stays, without damaging the bar.
    pub(crate) fn say(&self, line: &str) {
        self.bar.suspend(|| say!("{line}"));
    }

    pub(crate) fn finish(self) {
        self.bar.finish_and_clear();
    }

    fn left(&self) -> Option<u64> {
        let per_unit = (self.done > 0).then(|| self.began.elapsed().as_secs_f64() / self.done as f64)?;
        Some((per_unit * self.total.saturating_sub(self.done) as f64).ceil() as u64)
    }
}

/// A time in words, with at most two units: the seconds of an hour do not matter.
fn in_words(seconds: u64) -> String {
    match seconds {
        s if s < 60 => format!("{s} s"),
        s if s < 3600 => format!("{} min {} s", s / 60, s % 60),
        s => format!("{} h {} min", s / 3600, s % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::in_words;

    #[test]
    fn times_left() {
        assert_eq!(in_words(59), "59 s");
        assert_eq!(in_words(61), "1 min 1 s");
        assert_eq!(in_words(128_018), "35 h 33 min");
    }
}
