//! Lines on stderr that say what happens: text for people, or JSON for supervisors.

use std::cell::RefCell;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::Value;

use crate::output::{escaped, one_line};

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
        _ = writeln!(io::stderr().lock(), "{line}");
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
        let is_terminal = io::stderr().is_terminal() && !is_json() && !is_quiet();
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
            let (total, unit, seconds) = (self.total, self.unit, self.left());
            let left = seconds.map_or(String::new(), |left| format!(" · about {} left", in_words(left)));
            let message = if message.is_empty() { String::new() } else { format!(" · {message}") };
            tell!(
                Info,
                { "done": done, "total": total, "unit": unit, "seconds_left": seconds },
                "{done}/{total} {unit}{left}{message}"
            );
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
