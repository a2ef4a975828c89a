//! The formats of datasets and the endings of their files.

use std::path::Path;

use crate::FormatError;

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

#[cfg(test)]
mod tests {
    use super::*;

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
