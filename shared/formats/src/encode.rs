//! Writes datasets in a format, and finds what the format cannot hold.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use diode_core::{Dataset, Problem, Provenance};

use crate::atomic::write_atomically;
use crate::columnar::texts;
use crate::error::Place;
use crate::format::{Decoded, decode_stream};
use crate::input::contents::{FileKind, PARQUET_MAGIC, expect};
use crate::input::file::{Opened, in_file, open};
use crate::limits::{
    MAX_CONFIGS, MAX_DATASETS, MAX_NODE_FACTS, MAX_TEXT, MAX_TIMINGS_PER_FILE, MAX_TIMINGS_PER_PROBLEM,
};
use crate::{Format, FormatError, columnar, nested, rows};

/// Writes datasets in a format, or refuses with a list of what would be lost.
pub fn encode(format: Format, datasets: &[Dataset]) -> Result<Vec<u8>, FormatError> {
    check(datasets)?;
    if let Some(losses) = losses(format, datasets) {
        return Err(FormatError::WouldLose { holder: format.in_words(), losses });
    }
    match format {
        Format::PredecessorJson => Ok(nested::encode_json(datasets)),
        Format::PredecessorMsgpack => Ok(nested::encode_msgpack(datasets)),
        Format::Columnar => Ok(columnar::encode(datasets)),
        Format::Csv => Ok(rows::encode_csv(datasets)),
        #[cfg(feature = "parquet")]
        Format::Parquet => Ok(rows::parquet::encode(datasets)),
        #[cfg(not(feature = "parquet"))]
        Format::Parquet => Err(FormatError::WithoutParquet),
    }
}

/// What a format cannot hold, and in how many problems; `None` if it holds everything.
pub fn losses(format: Format, datasets: &[Dataset]) -> Option<String> {
    let losses = match format {
        Format::PredecessorJson | Format::PredecessorMsgpack => nested::losses(datasets),
        Format::Columnar => BTreeMap::new(),
        Format::Csv | Format::Parquet => rows::losses(datasets),
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
        Format::PredecessorJson | Format::PredecessorMsgpack => nested::reduce(datasets),
        Format::Columnar => (datasets.to_vec(), Vec::new()),
        Format::Csv | Format::Parquet => (rows::reduce(datasets), Vec::new()),
    };
    Reduced { datasets, left_out }
}

/// The problem as a format holds it.
pub fn held(format: Format, problem: &Problem) -> Problem {
    match format {
        Format::PredecessorJson | Format::PredecessorMsgpack => nested::plain(problem),
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
    let facts = datasets.iter().any(|dataset| rows::has_own_facts(&dataset.hardware));
    [("provenance", provenance), ("the facts of the hardware", facts)]
        .into_iter()
        .filter_map(|(what, applies)| applies.then_some(what))
        .collect()
}

/// Reads a dataset file in any format, whatever its name. Only a part of the file is in memory at a
/// time.
pub fn read_file(path: &Path) -> Result<Decoded, FormatError> {
    read_file_watched(path, &mut |_| {})
}

/// Reads like [`read_file`]. Tells `observe` after each piece how many bytes were read. A Parquet file is one piece.
pub fn read_file_watched(path: &Path, observe: &mut dyn FnMut(u64)) -> Result<Decoded, FormatError> {
    let Opened { file, length, head } = open(path)?;
    let decode = || {
        if head.starts_with(PARQUET_MAGIC) {
            return decode_parquet(file).map(|datasets| Decoded { format: Format::Parquet, datasets });
        }
        let watched = Watched { file, read: 0, observe };
        decode_stream(BufReader::with_capacity(1 << 16, watched), length, usize::MAX, |_| Ok(()))
    };
    expect(FileKind::Timings, &head, decode).map_err(|error| in_file(path, error))
}

struct Watched<'o> {
    file: File,
    read: u64,
    observe: &'o mut dyn FnMut(u64),
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.read += read as u64;
        (self.observe)(self.read);
        Ok(read)
    }
}

/// Writes a dataset file in the format that its extension names.
pub fn write_file(path: &Path, datasets: &[Dataset]) -> Result<(), FormatError> {
    let bytes = encode(Format::from_path(path)?, datasets).map_err(|error| in_file(path, error))?;
    write_atomically(path, &bytes).map_err(|source| FormatError::Io { path: path.to_owned(), source })
}

#[cfg(feature = "parquet")]
fn decode_parquet(file: File) -> Result<Vec<Dataset>, FormatError> {
    rows::parquet::decode(file)
}

#[cfg(not(feature = "parquet"))]
fn decode_parquet(_: File) -> Result<Vec<Dataset>, FormatError> {
    Err(FormatError::WithoutParquet)
}

pub(crate) fn check(datasets: &[Dataset]) -> Result<(), FormatError> {
    let timings = datasets.iter().map(|dataset| dataset.timings() + dataset.failures()).sum();
    within(&Place::default(), "datasets", datasets.len(), MAX_DATASETS)?;
    within(&Place::default(), "timings", timings, MAX_TIMINGS_PER_FILE)?;
    datasets.iter().try_for_each(check_dataset)
}

fn check_dataset(dataset: &Dataset) -> Result<(), FormatError> {
    let mut place = Place { hardware: Some(dataset.hardware.name.clone()), ..Place::default() };
    let inconsistent = |place: &Place, source| FormatError::Inconsistent { place: place.to_string(), source };
    dataset.hardware.validate().map_err(|source| inconsistent(&place, source))?;
    let longest_text = texts(&dataset.provenance).map(str::len).max().unwrap_or(0);
    within(&place, "configs", dataset.configs.len(), MAX_CONFIGS)?;
    within(&place, "facts of the node", dataset.provenance.node.len(), MAX_NODE_FACTS)?;
    within(&place, "bytes in one text of the provenance", longest_text, MAX_TEXT)?;
    for (number, solution) in (1..).zip(&dataset.solutions) {
        place.op = Some(solution.problem.op);
        place.problem = Some(number);
        solution.validate(&dataset.configs).map_err(|source| inconsistent(&place, source))?;
        within(&place, "timings", solution.configs.len(), MAX_TIMINGS_PER_PROBLEM)?;
        within(&place, "failures", solution.failures.len(), MAX_TIMINGS_PER_PROBLEM)?;
    }
    Ok(())
}

fn within(place: &Place, what: &'static str, given: usize, limit: usize) -> Result<(), FormatError> {
    if given <= limit {
        Ok(())
    } else {
        Err(FormatError::TooLarge { place: place.to_string(), what, given, limit })
    }
}

#[cfg(test)]
mod dataset_file_tests {
    use super::*;

    #[test]
    fn errors_name_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing.json");
        assert!(read_file(&missing).unwrap_err().to_string().contains("missing.json: "));
        let broken = dir.path().join("broken.json");
        write_atomically(&broken, b"{").unwrap();
        let message = read_file(&broken).unwrap_err().to_string();
        assert!(message.contains("broken.json: truncated JSON at line 1"), "{message}");
    }
}
