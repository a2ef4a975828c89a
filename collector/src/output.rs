//! Writes to stdout and stderr. It is no error if a reader such as `| head` stops reading.
//!
//! Names come from files, and control characters in them would control the terminal. So all output passes through
//! here, where control characters are escaped.

/// Like `eprintln!`, for text that contains names.
macro_rules! say {
    ($($text:tt)*) => { tell!(Info, {}, $($text)*) };
}

/// Says what to do after a success.
macro_rules! next {
    ($($text:tt)*) => { say!("next: {}", format_args!($($text)*)) };
}

/// Like `say!`, with a level and with facts for programs: `tell!(Warning, { "seconds": 3 }, "waiting for {name}")`.
macro_rules! tell {
    ($level:ident, { $($facts:tt)* }, $($text:tt)*) => {
        $crate::output::log::event(
            $crate::output::log::Level::$level,
            &serde_json::json!({ $($facts)* }),
            &format!($($text)*),
        )
    };
}

pub(crate) mod files;
pub(crate) mod log;

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write as _};

use anyhow::Context;
use serde::Serialize;

/// Prints one JSON document, and nothing else.
pub(crate) fn json(value: &impl Serialize) -> anyhow::Result<()> {
    let mut text = serde_json::to_string_pretty(value).context("cannot encode the output as JSON")?;
    text.push('\n');
    text_out(&text)
}

/// Prints text of one or more lines.
pub(crate) fn text_out(text: &str) -> anyhow::Result<()> {
    script_out(&escaped(text))
}

/// The text on one line, whatever it contains.
pub(crate) fn one_line(text: &str) -> String {
    escaped(&text.replace('\n', " ")).into_owned()
}

/// Escapes control characters, and characters that turn the direction of text, as in JSON.
fn escaped(text: &str) -> Cow<'_, str> {
    let is_harmful = |c: char| {
        (c.is_control() && c != '\n') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if is_harmful(c) {
            // Writing to a String cannot fail.
            let _ = write!(safe, "\\u{:04x}", u32::from(c));
        } else {
            safe.push(c);
        }
    }
    Cow::Owned(safe)
}

/// Prints text without escaping it. Nothing in it may come from outside.
pub(crate) fn script_out(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match log::above_bar(|| stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush())) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to stdout"),
    }
}

/// A table of text. The first `left` columns are aligned to the left. The others hold numbers and are aligned to the
/// right.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>], left: usize) -> String {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| one_line(cell)).collect()).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).chain([header[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let header: Vec<String> = header.iter().map(|&cell| cell.to_owned()).collect();
    let mut text = String::new();
    for row in std::iter::once(&header).chain(&rows) {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let gap = if column == 0 { "" } else { "  " };
            // Writing to a String cannot fail.
            let _ = if column < left {
                write!(line, "{gap}{cell:<width$}")
            } else {
                write!(line, "{gap}{cell:>width$}")
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The number with three significant digits, without an exponent.
pub(crate) fn significant(value: f64) -> String {
    if !value.is_finite() || value == 0.0 {
        return value.to_string();
    }
    let decimals = (2 - value.abs().log10().floor() as i32).clamp(0, 9);
    format!("{value:.*}", decimals as usize)
}

/// A time in a fitting unit.
pub(crate) fn duration(micros: f64) -> String {
    match micros {
        us if us < 1e3 => format!("{} µs", significant(us)),
        us if us < 1e6 => format!("{} ms", significant(us / 1e3)),
        us => format!("{} s", significant(us / 1e6)),
    }
}

/// An arithmetic rate in a fitting unit.
pub(crate) fn rate(tflops: f64) -> String {
    if tflops >= 1.0 {
        format!("{} TFLOP/s", significant(tflops))
    } else {
        format!("{} GFLOP/s", significant(tflops * 1e3))
    }
}

/// A number with its noun, such as `1 problem` or `2 problems`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(significant(1234.5), "1234");
        assert_eq!(significant(0.012_345), "0.0123");
        assert_eq!(duration(12.345), "12.3 µs");
        assert_eq!(duration(1_500_000.0), "1.50 s");
        assert_eq!(rate(0.0421), "42.1 GFLOP/s");
        assert_eq!(count(1, "problem"), "1 problem");
    }

    #[test]
    fn no_name_tells_the_terminal_what_to_do() {
        assert_eq!(
            escaped("H200 \u{1b}[31m\u{9b}2J\u{7f}\u{202e}\n"),
            "H200 \\u001b[31m\\u009b2J\\u007f\\u202e\n"
        );
        assert_eq!(escaped("1 µs · 16×16"), "1 µs · 16×16");
        assert_eq!(one_line("a\nerror: b\r"), "a error: b\\u000d");
        assert_eq!(table(&["name"], &[vec!["a\nb".to_owned()]], 1), "name\na b\n");
        let json = format!("\"{}\"", escaped("\u{7f}"));
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), "\u{7f}");
    }

    #[test]
    fn columns_line_up() {
        let rows = [vec!["mm".to_owned(), "8".to_owned()], vec!["addmm".to_owned(), "128".to_owned()]];
        assert_eq!(table(&["op", "M"], &rows, 1), "op       M\nmm       8\naddmm  128\n");
    }
}
