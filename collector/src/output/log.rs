//! Lines on stderr that say what happens: text for people, or JSON for supervisors.

use std::cell::RefCell;
use std::io::{self, IsTerminal as _, Read, Write as _};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::Value;

use crate::output::{escaped, one_line, significant};

/// How lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// One JSON document a line: time, level, device, message, and facts of the event
    Json,
}

/// How important a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Level {
    Info,
    /// Work goes on, but not as it should.
    Warning,
    /// Work does not go on.
    Error,
}

#[derive(Serialize)]
struct Line<'a> {
    time: String,
    level: Level,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<&'a str>,
    message: &'a str,
    #[serde(flatten)]
    facts: &'a Value,
}

static FORMAT: OnceLock<Format> = OnceLock::new();
static QUIET: OnceLock<bool> = OnceLock::new();

thread_local! {
    /// The device that this thread works for.
    static DEVICE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Sets the format of all further lines, and whether only warnings and errors are written. It is called once per process.
pub(crate) fn write_as(format: Format, quiet: bool) {
    // A second call would come from the same command line, with the same format.
    let _ = FORMAT.set(format);
    let _ = QUIET.set(quiet);
}

pub(crate) fn is_quiet() -> bool {
    QUIET.get() == Some(&true)
}

/// Whether lines are in JSON, for programs.
pub(crate) fn is_json() -> bool {
    FORMAT.get() == Some(&Format::Json)
}

/// Names the device in all further lines of this thread.
pub(crate) fn on_device(name: &str) {
    DEVICE.with_borrow_mut(|device| *device = Some(name.to_owned()));
}

/// Writes a line to stderr. `facts` is an object that appears only in JSON; the message states the facts in
/// words. If stderr cannot be written, for example because its reader is gone, the work goes on without it.
pub(crate) fn event(level: Level, facts: &Value, message: &str) {
    if level == Level::Info && is_quiet() {
        return;
    }
    DEVICE.with_borrow(|device| {
        let device = device.as_deref();
        let line =
            if is_json() { as_json(level, device, facts, message) } else { as_text(level, device, message) };
        above_bar(|| _ = writeln!(io::stderr().lock(), "{line}"));
    });
}

fn as_text(level: Level, device: Option<&str>, message: &str) -> String {
    let mark = if level == Level::Error { "error: " } else { "" };
    match device {
        Some(device) => one_line(&format!("{device}: {mark}{message}")),
        None => one_line(&format!("{mark}{message}")),
    }
}

fn as_json(level: Level, device: Option<&str>, facts: &Value, message: &str) -> String {
    let line = Line { time: jiff::Timestamp::now().to_string(), level, device, message, facts };
    // Texts and numbers can always become JSON. What `escaped` writes is valid within a text of
    // JSON.
    serde_json::to_string(&line).map_or_else(|error| error.to_string(), |line| escaped(&line).into_owned())
}

/// When the first plain line about a job is due …
const FIRST_LINE: Duration = Duration::from_secs(1);
/// … and the time between further ones. A log should stay readable.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// How often a bar is drawn while nothing is told to it.
const REDRAW: Duration = Duration::from_millis(250);

/// The bar that is on the terminal. Lines are written above it.
static ON_TERMINAL: Mutex<Option<ProgressBar>> = Mutex::new(None);

fn on_terminal() -> MutexGuard<'static, Option<ProgressBar>> {
    ON_TERMINAL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes while no bar is on the terminal.
pub(crate) fn above_bar<T>(write: impl FnOnce() -> T) -> T {
    let bar = on_terminal().clone();
    match bar {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// The progress of one long job, on a terminal as a bar that disappears when the job ends.
pub(crate) struct Progress {
    bar: ProgressBar,
    unit: &'static str,
    began: Instant,
    next_line: Instant,
    /// How much had been done before.
    before: u64,
    done: u64,
    total: u64,
}

impl Progress {
    pub(crate) fn new(total: u64, unit: &'static str) -> Self {
        let is_terminal = io::stderr().is_terminal() && !is_json() && !is_quiet();
        let bar = if is_terminal { ProgressBar::new(total) } else { ProgressBar::hidden() };
        let template = "{bar:24} {pos}/{len} {prefix} · {eta} left · {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_prefix(unit);
        if is_terminal {
            bar.enable_steady_tick(REDRAW);
            *on_terminal() = Some(bar.clone());
        }
        let now = Instant::now();
        Self { bar, unit, began: now, next_line: now + FIRST_LINE, before: 0, done: 0, total }
    }

    /// The progress of reading or sending bytes.
    pub(crate) fn of_bytes(bytes: u64) -> Self {
        Self::new(bytes.div_ceil(KB), "kB")
    }

    /// Items of which each is done when the next one is asked for.
    pub(crate) fn through<T>(
        items: impl ExactSizeIterator<Item = T>,
        unit: &'static str,
    ) -> impl Iterator<Item = T> {
        let mut progress = Self::new(items.len() as u64, unit);
        (0..).zip(items).map(move |(done, item)| {
            progress.set(done, "");
            item
        })
    }

    /// Sets how much had been done before this job.
    pub(crate) fn go_on_from(&mut self, before: u64) {
        self.before = before;
    }

    /// Sets how much is done, with a message about it.
    pub(crate) fn set(&mut self, done: u64, message: &str) {
        self.done = done;
        let rate = self.rate();
        let said = rate.map(|rate| format!("{}/s", significant(rate)));
        let message = said.into_iter().chain((!message.is_empty()).then(|| message.to_owned()));
        let message = message.collect::<Vec<_>>().join(" · ");
        if !self.bar.is_hidden() {
            self.bar.set_position(done);
            self.bar.set_message(message);
        } else if Instant::now() >= self.next_line {
            self.next_line = Instant::now() + LINE_EVERY;
            let (total, unit, seconds) = (self.total, self.unit, self.left());
            let left = seconds.map_or(String::new(), |left| format!(" · about {} left", in_words(left)));
            let message = if message.is_empty() { message } else { format!(" · {message}") };
            tell!(
                Info,
                { "done": done, "total": total, "unit": unit, "per_second": rate, "seconds_left": seconds },
                "{done}/{total} {unit}{left}{message}"
            );
        }
    }

    /// Sets how many bytes are done.
    pub(crate) fn set_bytes(&mut self, done: u64, message: &str) {
        self.set(done / KB, message);
    }

    /// A reader that tells how much was read through it, from `before` on.
    pub(crate) fn watch<R: Read>(&mut self, inner: R, before: u64) -> impl Read + use<'_, R> {
        self.go_on_from(before / KB);
        Watched { inner, progress: self, read: before }
    }

    fn rate(&self) -> Option<f64> {
        let done = self.done.saturating_sub(self.before);
        (done > 0 && self.unit != "%").then(|| done as f64 / self.began.elapsed().as_secs_f64())
    }

    fn left(&self) -> Option<u64> {
        let done = self.done.saturating_sub(self.before);
        let per_unit = (done > 0).then(|| self.began.elapsed().as_secs_f64() / done as f64)?;
        Some((per_unit * self.total.saturating_sub(self.done) as f64).ceil() as u64)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if !self.bar.is_hidden() {
            *on_terminal() = None;
            self.bar.finish_and_clear();
        }
    }
}

/// The unit in which bytes are shown.
const KB: u64 = 1000;

struct Watched<'p, R> {
    inner: R,
    progress: &'p mut Progress,
    read: u64,
}

impl<R: Read> Read for Watched<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.read += read as u64;
        self.progress.set_bytes(self.read, "");
        Ok(read)
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
    use serde_json::json;

    use super::{in_words, *};

    #[test]
    fn a_line_is_one_document_whatever_is_in_it() {
        let message = "a \"pack\"\nof \u{1b}[31m \u{9b} \u{202e}";
        let line = as_json(Level::Warning, Some("gpu01, device 0"), &json!({ "problems": 3 }), message);
        assert!(!line.contains(['\n', '\u{1b}', '\u{9b}', '\u{202e}']), "{line}");
        let parsed: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&parsed["level"], &parsed["problems"]), (&json!("warning"), &json!(3)));
        assert_eq!((&parsed["device"], &parsed["message"]), (&json!("gpu01, device 0"), &json!(message)));
        parsed["time"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
        assert!(!as_json(Level::Info, None, &json!({}), "x").contains("device"));
    }

    #[test]
    fn text_names_the_device_and_marks_errors() {
        assert_eq!(as_text(Level::Error, None, "a\nb"), "error: a b");
        assert_eq!(as_text(Level::Info, Some("gpu01"), "a"), "gpu01: a");
    }

    #[test]
    fn times_left() {
        assert_eq!(in_words(59), "59 s");
        assert_eq!(in_words(61), "1 min 1 s");
        assert_eq!(in_words(128_018), "35 h 33 min");
    }
}
