//! Writes datasets in a format, and finds what the format cannot hold.

use std::collections::BTreeMap;

use diode_core::{Dataset, Problem, Provenance};

use crate::check_before_writing::check;
use crate::predecessor::tree;
use crate::{Format, FormatError, columnar, rows};

/// Writes datasets in a format, or refuses with a list of what would be lost.
pub fn encode(format: Format, datasets: &[Dataset]) -> Result<Vec<u8>, FormatError> {
    check(datasets)?;
    if let Some(losses) = losses(format, datasets) {
        return Err(FormatError::WouldLose { holder: format.in_words(), losses });
    }
    match format {
        Format::PredecessorJson => Ok(tree::encode_json(datasets)),
        Format::PredecessorMsgpack => Ok(tree::encode_msgpack(datasets)),
        Format::Columnar => Ok(columnar::encode(datasets)),
        Format::Csv => Ok(rows::csv::encode(datasets)),
        #[cfg(feature = "parquet")]
        Format::Parquet => Ok(rows::parquet::encode(datasets)),
        #[cfg(not(feature = "parquet"))]
        Format::Parquet => Err(FormatError::WithoutParquet),
    }
}

/// What a format cannot hold, and in how many problems; `None` if it holds everything.
pub fn losses(format: Format, datasets: &[Dataset]) -> Option<String> {
    let losses = match format {
        Format::PredecessorJson | Format::PredecessorMsgpack => tree::losses(datasets),
        Format::Columnar => BTreeMap::new(),
        Format::Csv | Format::Parquet => rows::losses::losses(datasets),
    };
    let in_words = |(loss, problems): (&str, usize)| {
        format!("{loss} ({problems} {})", if problems == 1 { "problem" } else { "problems" })
    };
    let losses: Vec<String> = losses.into_iter().map(in_words).collect();
    (!losses.is_empty()).then(|| losses.join(", "))
}

/// Datasets that a format can hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Reduced {
    pub datasets: Vec<Dataset>,
    /// Sentences about what was left out because the format could not tell it from something else.
    pub left_out: Vec<String>,
}

/// The same datasets without what a format cannot hold, so that [`encode`] accepts them. Timings of
/// different things are never mixed, even if the format cannot tell these things apart.
pub fn reduce(format: Format, datasets: &[Dataset]) -> Reduced {
    let (datasets, left_out) = match format {
        Format::PredecessorJson | Format::PredecessorMsgpack => tree::reduce(datasets),
        Format::Columnar => (datasets.to_vec(), Vec::new()),
        Format::Csv | Format::Parquet => (rows::losses::reduce(datasets), Vec::new()),
    };
    Reduced { datasets, left_out }
}

/// The problem as a format holds it.
pub fn held(format: Format, problem: &Problem) -> Problem {
    match format {
        Format::PredecessorJson | Format::PredecessorMsgpack => tree::plain(problem),
        Format::Columnar | Format::Csv | Format::Parquet => problem.clone(),
    }
}

/// What a format leaves out without an error: facts about where timings come from. They do not change
/// what the timings are.
pub fn left_out(format: Format, datasets: &[Dataset]) -> Vec<&'static str> {
    if matches!(format, Format::Columnar | Format::Parquet) {
        return Vec::new();
    }
    let provenance = datasets.iter().any(|dataset| dataset.provenance != Provenance::default());
    let facts = datasets.iter().any(|dataset| rows::losses::has_own_facts(&dataset.hardware));
    [("provenance", provenance), ("the facts of the hardware", facts)]
        .into_iter()
        .filter_map(|(what, applies)| applies.then_some(what))
        .collect()
}
