//! The report as text.

use std::fmt::Write as _;

use super::groups::SolutionGroup;
use super::{Fastest, Report};
use crate::output;

pub(crate) fn report(report: &Report) -> String {
    let groups: Vec<Vec<String>> = report.groups.iter().map(group).collect();
    let rows: Vec<Vec<String>> = report.fastest.iter().map(fastest).collect();
    let header = [
        "hardware",
        "op",
        "dtype",
        "method",
        "problems",
        "timings",
        "failures",
        "best rate",
        "of roofline",
        "noise",
    ];
    let summary = output::table(&header, &groups, 4);
    let details: String = report.groups.iter().map(details).collect();
    let mut text = format!("Format: {}\n\n{summary}{details}", report.format);
    if !rows.is_empty() {
        let header = ["hardware", "op", "dtype", "best config", "M×N×K", "time", "rate"];
        text.push('\n');
        text.push_str(&output::table(&header, &rows, 4));
    }
    text
}

fn group(g: &SolutionGroup) -> Vec<String> {
    let percent = |share: Option<f64>| {
        share.map_or("–".to_owned(), |share| format!("{} %", output::significant(100.0 * share)))
    };
    vec![
        g.hardware.clone(),
        g.op.to_string(),
        g.dtype.to_string(),
        g.method.to_string(),
        g.problems.to_string(),
        g.timings.to_string(),
        g.failures.to_string(),
        g.best_tflops.map_or("none".to_owned(), output::rate),
        percent(g.best_roofline_share),
        percent(g.noise),
    ]
}

/// Figures that only some groups have.
fn details(g: &SolutionGroup) -> String {
    let mut text = String::new();
    let name = format!("{} {} {} {}", g.hardware, g.op, g.dtype, g.method);
    // Writing to a String cannot fail.
    if !g.failures_by_reason.is_empty() {
        let reasons = g.failures_by_reason.iter().map(|(reason, count)| format!("{count} {reason}"));
        let _ = writeln!(text, "\nFailures of {name}: {}", reasons.collect::<Vec<_>>().join(", "));
    }
    if let Some(library) = &g.library {
        let _ = writeln!(
            text,
            "\nLibrary against the best Triton config of {name}: wins {} of {}, {} of its time in the geometric mean",
            library.library_wins,
            output::count(library.problems, "problem"),
            output::significant(library.time_ratio),
        );
    }
    text
}

fn fastest(f: &Fastest) -> Vec<String> {
    let p = &f.problem;
    vec![
        f.hardware.clone(),
        p.op.to_string(),
        p.a_dtype.to_string(),
        f.config.label(),
        p.dims(),
        output::duration(f.time_us),
        output::rate(f.tflops),
    ]
}
