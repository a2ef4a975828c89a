//! The formats of datasets: the endings of their files, how they are recognised, and decoding.

use std::io;
use std::io::BufRead;
use std::path::Path;

use diode_core::Dataset;

use crate::error::{Place, malformed};
use crate::input::Source;
use crate::input::contents::{FileKind, PARQUET_MAGIC, expect};
use crate::{FormatError, columnar, nested, rows};

/// A format of datasets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// torch-diode's nested JSON.
    PredecessorJson,
    /// The same tree of maps, as MessagePack.
    PredecessorMsgpack,
    /// Diode's columnar format. It alone holds everything that a dataset has.
    Columnar,
    /// Text with one row per timing.
    Csv,
    /// Typed and compressed columns, with one row per timing.
    Parquet,
}

/// The endings of file names that can be written, for error messages.
const EXPECTED: &str = "use .msgpack.zst (columnar), .json or .msgpack (torch-diode), .csv or .parquet";

impl Format {
    pub const ALL: [Self; 5] =
        [Self::PredecessorJson, Self::PredecessorMsgpack, Self::Columnar, Self::Csv, Self::Parquet];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PredecessorJson => "torch-diode-json",
            Self::PredecessorMsgpack => "torch-diode-msgpack",
            Self::Columnar => "columnar",
            Self::Csv => "csv",
            Self::Parquet => "parquet",
        }
    }

    /// What a sentence calls the format.
    pub(crate) const fn in_words(self) -> &'static str {
        match self {
            Self::PredecessorJson | Self::PredecessorMsgpack => "torch-diode's format",
            Self::Columnar => "the columnar format",
            Self::Csv => "CSV",
            Self::Parquet => "Parquet",
        }
    }

    /// The ending of file names in this format.
    pub const fn ending(self) -> &'static str {
        match self {
            Self::PredecessorJson => ".json",
            Self::PredecessorMsgpack => ".msgpack",
            Self::Columnar => ".msgpack.zst",
            Self::Csv => ".csv",
            Self::Parquet => ".parquet",
        }
    }

    /// Whether programs send each other this format. The other formats are for people and their
    /// tools.
    pub const fn travels(self) -> bool {
        matches!(self, Self::PredecessorJson | Self::PredecessorMsgpack | Self::Columnar)
    }

    /// The formats that programs send each other.
    pub fn travelling() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(|format| format.travels())
    }

    /// Splits the name of a dataset file into its stem and the format of its ending. Case does not
    /// matter.
    pub fn split_name(name: &str) -> Option<(&str, Self)> {
        Self::ALL.into_iter().find_map(|format| {
            let (stem, ending) = name.split_at_checked(name.len().checked_sub(format.ending().len())?)?;
            ending.eq_ignore_ascii_case(format.ending()).then_some((stem, format))
        })
    }

    /// The format in which a file of this name is written. Reading does not use the name.
    pub fn from_path(path: &Path) -> Result<Self, FormatError> {
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        Self::split_name(&name)
            .map(|(_, format)| format)
            .ok_or_else(|| FormatError::UnknownExtension { path: path.to_owned(), expected: EXPECTED })
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// The datasets that some bytes hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The format inside any compression.
    pub format: Format,
    /// One dataset for each hardware key of the file.
    pub datasets: Vec<Dataset>,
}

/// Decodes datasets in the formats that programs send each other: torch-diode's formats and the
/// columnar format, compressed or not. CSV and Parquet are for people and their tools;
/// [`read_file`](crate::read_file) reads them.
pub fn decode(bytes: &[u8]) -> Result<Decoded, FormatError> {
    decode_within(bytes, usize::MAX)
}

/// Decodes like [`decode`], but refuses more than `timings` timings and failures, even where the
/// [limits](crate::limits) allow more. Decoding stops as soon as there are too many.
pub fn decode_within(bytes: &[u8], timings: usize) -> Result<Decoded, FormatError> {
    let decode = || decode_stream(bytes, bytes.len() as u64, timings, travels);
    expect(FileKind::Timings, bytes, decode).map_err(|error| match error {
        FormatError::Unexpected { found, expected: ANY } => {
            FormatError::Unexpected { found, expected: TRAVELLING }
        }
        other => other,
    })
}

/// Whether the first bytes of a file are not those of a format that only people and their tools read.
pub fn may_travel(head: &[u8]) -> bool {
    let begins = |mut source: Source<_>| format_of(source.peek().ok()?).ok();
    let format = Source::open(head, head.len() as u64).ok().and_then(begins);
    format.is_none_or(Format::travels)
}

/// What a dataset file may be, for error messages.
pub(crate) const ANY: &str = "JSON, MessagePack, CSV, Parquet or a columnar file, plain or under zstd";
/// What programs send each other, for error messages.
const TRAVELLING: &str = "a columnar file, or torch-diode's JSON or MessagePack, plain or under zstd";

fn travels(format: Format) -> Result<(), FormatError> {
    if format.travels() { Ok(()) } else { Err(FormatError::NotForTravel { found: format.in_words() }) }
}

/// Decodes datasets in any format but Parquet. `length` is the number of bytes of the input, and
/// `timings` the most timings and failures that it may hold. `accepts` may refuse the format before
/// anything is read.
pub(crate) fn decode_stream<R: BufRead>(
    mut input: R,
    length: u64,
    timings: usize,
    accepts: fn(Format) -> Result<(), FormatError>,
) -> Result<Decoded, FormatError> {
    let at_start = |error: io::Error| malformed("data", 0, &Place::default(), &error);
    if input.fill_buf().map_err(at_start)?.is_empty() {
        return Err(at_start(io::Error::other("no bytes at all, expected a dataset")));
    }
    let mut source = Source::open(input, length)?;
    source.limit_timings(timings);
    let format = format_of(source.peek().map_err(at_start)?)?;
    if let Err(refused) = accepts(format) {
        // A note is no table that somebody could convert.
        let checked = if format == Format::Csv { rows::check_csv(source) } else { Ok(()) };
        return Err(checked
            .err()
            .filter(|found| matches!(found, FormatError::Unexpected { .. }))
            .unwrap_or(refused));
    }
    let datasets = match format {
        Format::Columnar => columnar::decode(source)?,
        Format::PredecessorJson => nested::decode_json(source)?,
        Format::PredecessorMsgpack => nested::decode_msgpack(source)?,
        Format::Csv => rows::decode_csv(source)?,
        Format::Parquet => {
            let packed = io::Error::other("Parquet within zstd; unpack it first");
            return Err(malformed("Parquet", 0, &Place::default(), &packed));
        }
    };
    Ok(Decoded { format, datasets })
}

/// The format of the data that begins with these bytes.
fn format_of(head: &[u8]) -> Result<Format, FormatError> {
    if columnar::begins(head) {
        return Ok(Format::Columnar);
    }
    if head.starts_with(PARQUET_MAGIC) {
        return Ok(Format::Parquet);
    }
    match head.first() {
        Some(b'{' | b'[' | b' ' | b'\t' | b'\r' | b'\n') => Ok(Format::PredecessorJson),
        // The name of a column, perhaps in quotes.
        Some(b'a'..=b'z' | b'A'..=b'Z' | b'"') => Ok(Format::Csv),
        // In MessagePack, bytes below 0x80 are small numbers, and no dataset begins with a number.
        Some(0..0x80) => {
            let is_gzip = head.starts_with(&[0x1f, 0x8b]);
            let found = if is_gzip { "a gzip file" } else { "bytes that begin no dataset" };
            Err(FormatError::Unexpected { found: found.to_owned(), expected: ANY })
        }
        _ => Ok(Format::PredecessorMsgpack),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_no_table() {
        for note in ["notes\n", "Dear all, these are the notes of today\n", "a"] {
            let said = decode(note.as_bytes()).unwrap_err().to_string();
            assert!(said.contains("text that is no table"), "{said}");
        }
        let said = decode(b"op,colour\n").unwrap_err().to_string();
        assert!(said.contains("got CSV"), "{said}");
    }

    #[test]
    fn extensions_choose_the_format_to_write() {
        let format = |name: &str| Format::from_path(Path::new(name));
        assert_eq!(format("a/b.json").unwrap(), Format::PredecessorJson);
        assert_eq!(format("b.MSGPACK").unwrap(), Format::PredecessorMsgpack);
        assert_eq!(format("b.msgpack.zst").unwrap(), Format::Columnar);
        assert_eq!(format("b.csv").unwrap(), Format::Csv);
        assert_eq!(format("b.parquet").unwrap(), Format::Parquet);
        let message = format("b.zst").unwrap_err().to_string();
        assert!(message.starts_with("b.zst: "), "{message}");
        for format in Format::ALL {
            assert!(message.contains(&format!("{} ", format.ending())) || message.ends_with(format.ending()));
        }
    }

    #[test]
    fn a_name_without_its_ending_is_as_it_was_given() {
        assert_eq!(Format::split_name("Set_é.MsgPack.zst"), Some(("Set_é", Format::Columnar)));
        assert_eq!(Format::split_name(".json"), Some(("", Format::PredecessorJson)));
        assert_eq!(Format::split_name("é.zst"), None);
    }
}
