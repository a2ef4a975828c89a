//! Reads and writes dataset files. A file's content decides how it is read, and its name decides
//! how it is written.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use diode_core::Dataset;

use crate::atomic::write_atomically;
use crate::decode::{Decoded, decode_stream};
use crate::encode::encode;
use crate::input::contents::{FileKind, PARQUET_MAGIC, expect};
use crate::input::file::{Opened, in_file, open};
use crate::{Format, FormatError};

/// Reads a dataset file in any format, whatever its name. Only a part of the file is in memory at a
/// time.
pub fn read_file(path: &Path) -> Result<Decoded, FormatError> {
    let Opened { file, length, head } = open(path)?;
    let decode = || {
        if head.starts_with(PARQUET_MAGIC) {
            return decode_parquet(file).map(|datasets| Decoded { format: Format::Parquet, datasets });
        }
        decode_stream(BufReader::with_capacity(1 << 16, file), length, usize::MAX, |_| Ok(()))
    };
    expect(FileKind::Timings, &head, decode).map_err(|error| in_file(path, error))
}

/// Writes a dataset file in the format that its extension names.
pub fn write_file(path: &Path, datasets: &[Dataset]) -> Result<(), FormatError> {
    let bytes = encode(Format::from_path(path)?, datasets).map_err(|error| in_file(path, error))?;
    write_atomically(path, &bytes).map_err(|source| FormatError::Io { path: path.to_owned(), source })
}

#[cfg(feature = "parquet")]
fn decode_parquet(file: File) -> Result<Vec<Dataset>, FormatError> {
    crate::rows::parquet::decode(file)
}

#[cfg(not(feature = "parquet"))]
fn decode_parquet(_: File) -> Result<Vec<Dataset>, FormatError> {
    Err(FormatError::WithoutParquet)
}

#[cfg(test)]
mod tests {
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
