//! Checks models that are contributed to others. Programs check a model before they send it, and servers
//! before they take it.

use diode_api::{EvaluationReport, MAX_MODEL_BYTES};
use diode_core::Invalid;

use crate::file::names_architecture;
use crate::metadata::Training;
use crate::{Metadata, Model, ModelError};

/// No model has learnt from more problems or timings than this.
const MOST_LEARNT: u64 = 1_000_000_000_000;

/// The texts that trainings write are shorter.
const LONGEST_TEXT: usize = 200;

/// The numbers of picks for which an evaluation has figures.
const PICKS: [&str; 5] = ["1", "3", "5", "8", "16"];

/// How far shares may lie beyond their bounds, since they are computed in floating point.
const ROUNDING: f64 = 1e-6;

/// Reads a model file from a stranger. Refuses whatever a training would not write.
pub fn examine(bytes: &[u8]) -> Result<Model, ModelError> {
    if bytes.len() > MAX_MODEL_BYTES {
        return Err(ModelError::TooLarge { bytes: bytes.len(), max: MAX_MODEL_BYTES });
    }
    if names_architecture(bytes) {
        let expected = "a model of `diode train`; others can be used, but not contributed";
        return Err(Invalid::new("model file", "a network of torch-diode's", expected).into());
    }
    let model = Model::from_bytes(bytes)?;
    // The file must hold nothing but the model, since people download it.
    if model.to_bytes()? != bytes {
        let expected = "the bytes that this version of diode writes; train the model again";
        return Err(Invalid::new("model file", "more or other than a model holds", expected).into());
    }
    check(model.metadata())?;
    Ok(model)
}

fn check(about: &Metadata) -> Result<(), Invalid> {
    let slug = &about.hardware.slug;
    if let Some(trained_on) = &about.stands_in_from {
        let given = format!("a model of {trained_on} that stands in for {slug}");
        return Err(Invalid::new("model file", given, format!("a model that was trained on {slug}")));
    }
    if about.ops.is_empty() || about.dtypes.is_empty() {
        return Err(Invalid::new("model file", "no operators or types", "those that it was trained for"));
    }
    let Training { problems, timings, created_at, tool, .. } = &about.training;
    for (what, count) in [("training problems", *problems), ("training timings", *timings)] {
        if !(1..=MOST_LEARNT).contains(&count) {
            return Err(Invalid::new(what, count, format!("1 to {MOST_LEARNT}")));
        }
    }
    if !is_moment(created_at) {
        let given = format!("`{}`", created_at.escape_debug());
        return Err(Invalid::new("created_at", given, "a moment, such as 2026-11-20T12:00:00Z"));
    }
    plain("tool", tool)?;
    about.evaluation.as_ref().map_or(Ok(()), check_report)
}

/// Checks the figures that the file states, because they are shown to people.
fn check_report(report: &EvaluationReport) -> Result<(), Invalid> {
    plain("split", &report.split)?;
    let picks = report.top_k.keys().chain(report.within_5_percent.keys());
    if let Some(other) = picks.into_iter().find(|picks| !PICKS.contains(&picks.as_str())) {
        let given = format!("`{}`", other.escape_debug());
        return Err(Invalid::new("picks of the evaluation", given, format!("one of {}", PICKS.join(", "))));
    }
    let shares = report.top_k.values().flat_map(|top| [top.geomean, top.worst]);
    for share in shares.chain(report.within_5_percent.values().copied()) {
        if !(0.0..=1.0 + ROUNDING).contains(&share) {
            return Err(Invalid::new("share of the evaluation", share, "0 to 1"));
        }
    }
    Ok(())
}

/// Whether a text looks like RFC 3339.
fn is_moment(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_at = |at: usize, expected: u8| bytes.get(at) == Some(&expected);
    (20..=35).contains(&bytes.len())
        && [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')].iter().all(|&(at, b)| is_at(at, b))
        && bytes.iter().all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'+' | b':' | b'.' | b'T' | b'Z'))
}

fn plain(what: &str, text: &str) -> Result<(), Invalid> {
    let is_plain = |b: u8| (b.is_ascii_graphic() || b == b' ') && !matches!(b, b'<' | b'>');
    if text.len() <= LONGEST_TEXT && text.bytes().all(is_plain) {
        return Ok(());
    }
    let given = format!("`{}`", text.chars().take(40).collect::<String>().escape_debug());
    Err(Invalid::new(what, given, format!("at most {LONGEST_TEXT} plain letters")))
}
