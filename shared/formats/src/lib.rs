//! Every byte that comes from outside is met here: torch-diode's datasets, shape
//! sets, solutions and tables, Diode's own columnar format, CSV and Parquet,
//! specified in `docs/reference/formats.md`.
//!
//! Reading recognises a file by its content and survives hostile bytes: what it
//! is willing to hold is bounded by the constants in [`limits`], and every
//! failure is a [`FormatError`]. Writing never loses anything silently.
#![forbid(unsafe_code)]

mod bytes;
mod check;
mod checkpoint;
mod columnar;
mod columns;
mod contents;
mod delimited;
mod dictionary;
mod digest;
mod document;
mod error;
mod file;
mod format;
pub mod limits;
mod lookup_table;
mod msgpack;
pub mod pack;
mod place;
mod predecessor;
mod reference_configs;
mod rows;
mod shapeset;
mod source;
pub mod stored;
mod text;

pub use checkpoint::{decode_checkpoint, read_checkpoint};
pub use contents::{Kind, may_be_timings, recognise};
pub use digest::{content_digest, solution_digest};
pub use error::FormatError;
pub use file::{check_writable, read_file, read_head, write_atomically, write_file};
pub use format::Format;
pub use lookup_table::{LookupTable, decode_lookup_table, read_lookup_table};
pub use reference_configs::{
    ReferenceConfig, ReferenceConfigs, Scope, decode_reference_configs, read_reference_configs,
};
pub use shapeset::{ShapeForm, ShapeSet, decode_shapes, read_shapes};
pub use source::{Decoded, decode};
pub use text::{open_text, read_bounded, read_text};

use std::collections::BTreeMap;

use diode_core::{Dataset, Problem, Provenance};

/// Writes datasets in a format, or refuses with a list of what would be lost.
pub fn encode(format: Format, datasets: &[Dataset]) -> Result<Vec<u8>, FormatError> {
    check::check(datasets)?;
    if let Some(losses) = losses(format, datasets) {
        return Err(FormatError::WouldLose { format, losses });
    }
    match format {
        Format::PredecessorJson => Ok(predecessor::encode_json(datasets)),
        Format::PredecessorMsgpack => Ok(predecessor::encode_msgpack(datasets)),
        Format::Columnar => Ok(columnar::encode(datasets)),
        Format::Csv => Ok(rows::csv::encode(datasets)),
        #[cfg(feature = "parquet")]
        Format::Parquet => Ok(rows::parquet::encode(datasets)),
        #[cfg(not(feature = "parquet"))]
        Format::Parquet => Err(FormatError::WithoutParquet),
    }
}

/// What a format has no place for, and in how many problems; `None` if it holds everything.
pub fn losses(format: Format, datasets: &[Dataset]) -> Option<String> {
    let losses = match format {
        Format::PredecessorJson | Format::PredecessorMsgpack => predecessor::losses(datasets),
        Format::Columnar => BTreeMap::new(),
        Format::Csv | Format::Parquet => rows::losses::losses(datasets),
    };
    let in_words = |(loss, problems): (&str, usize)| {
        format!("{loss} ({problems} {})", if problems == 1 { "problem" } else { "problems" })
    };
    let losses: Vec<String> = losses.into_iter().map(in_words).collect();
    (!losses.is_empty()).then(|| losses.join(", "))
}

/// Datasets that fit a format.
#[derive(Debug, Clone, PartialEq)]
pub struct Reduced {
    pub datasets: Vec<Dataset>,
    /// What was left out because in the format it would pass for something else, a sentence each.
    pub left_out: Vec<String>,
}

/// The same datasets without what a format cannot hold, so that [`encode`] accepts them. Timings that
/// the format could not tell apart are never mixed.
pub fn reduce(format: Format, datasets: &[Dataset]) -> Reduced {
    let (datasets, left_out) = match format {
        Format::PredecessorJson | Format::PredecessorMsgpack => predecessor::reduce(datasets),
        Format::Columnar => (datasets.to_vec(), Vec::new()),
        Format::Csv | Format::Parquet => (rows::losses::reduce(datasets), Vec::new()),
    };
    Reduced { datasets, left_out }
}

/// The problem that a problem becomes in a format.
pub fn held(format: Format, problem: &Problem) -> Problem {
    match format {
        Format::PredecessorJson | Format::PredecessorMsgpack => predecessor::plain(problem),
        Format::Columnar | Format::Csv | Format::Parquet => problem.clone(),
    }
}

/// What a format lets go of without being asked, because it describes where
/// timings come from and not what they are.
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
