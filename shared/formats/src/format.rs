//! The formats of datasets and the file extensions they are written under.

use std::path::Path;

use crate::FormatError;

/// A format of datasets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// torch-diode's nested JSON.
    PredecessorJson,
    /// The same tree as MessagePack.
    PredecessorMsgpack,
    /// Diode's columns; the only one that holds everything a dataset can say.
    Columnar,
    /// One row per timing, as text.
    Csv,
    /// One row per timing, typed and compressed.
    Parquet,
}

impl Format {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PredecessorJson => "torch-diode-json",
            Self::PredecessorMsgpack => "torch-diode-msgpack",
            Self::Columnar => "columnar",
            Self::Csv => "csv",
            Self::Parquet => "parquet",
        }
    }

    /// The format as a sentence calls it.
    pub(crate) const fn holder(self) -> &'static str {
        match self {
            Self::PredecessorJson | Self::PredecessorMsgpack => "torch-diode's format",
            Self::Columnar => "the columnar format",
            Self::Csv => "CSV",
            Self::Parquet => "Parquet",
        }
    }

    /// The format to write under a file name. Reading does not ask the name.
    pub fn from_path(path: &Path) -> Result<Self, FormatError> {
        let name = path.file_name().map(|name| name.to_string_lossy().to_lowercase()).unwrap_or_default();
        [
            (".json", Self::PredecessorJson),
            (".msgpack", Self::PredecessorMsgpack),
            (".msgpack.zst", Self::Columnar),
            (".csv", Self::Csv),
            (".parquet", Self::Parquet),
        ]
        .into_iter()
        .find(|(extension, _)| name.ends_with(extension))
        .map(|(_, format)| format)
        .ok_or_else(|| FormatError::UnknownExtension { path: path.to_owned() })
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
        assert!(message.starts_with("b.zst: ") && message.contains(".msgpack.zst"), "{message}");
    }
}
