//! Opens files, and reads whole files of bounded length.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::Path;

use crate::FormatError;
use crate::limits::MAX_DOCUMENT;

/// A file that is about to be read.
pub(crate) struct Opened {
    pub(crate) file: File,
    pub(crate) length: u64,
    pub(crate) head: Vec<u8>,
}

/// Opens a file and looks at its first bytes. They are read again later.
pub(crate) fn open(path: &Path) -> Result<Opened, FormatError> {
    let unreadable = |source| unreadable(path, source);
    let mut file = open_regular(path)?;
    let length = file.metadata().map_err(unreadable)?.len();
    let mut head = Vec::new();
    (&file).take(SAMPLE).read_to_end(&mut head).map_err(unreadable)?;
    file.rewind().map_err(unreadable)?;
    Ok(Opened { file, length, head })
}

/// Opens a file that has a length and can be read twice. A pipe is refused: opening it would wait
/// for a writer.
pub(crate) fn open_regular(path: &Path) -> Result<File, FormatError> {
    let unreadable = |source| unreadable(path, source);
    if !path.metadata().map_err(unreadable)?.is_file() {
        return Err(unreadable(io::Error::other("got a pipe or a device, expected a regular file")));
    }
    File::open(path).map_err(unreadable)
}

/// The first bytes of a file, enough to recognise it by.
pub fn read_head(path: &Path) -> Result<Vec<u8>, FormatError> {
    Ok(open(path)?.head)
}

/// How many bytes are read to recognise a file. A compressed file needs a whole block.
const SAMPLE: u64 = 1 << 17;

/// Reads a whole file, unless it is longer than `limit`.
pub fn read_bounded(path: &Path, limit: u64) -> Result<Vec<u8>, FormatError> {
    let unreadable = |source| unreadable(path, source);
    let file = File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    let mut length = file.metadata().map_err(unreadable)?.len();
    if length <= limit {
        // A pipe or a device has no length to check first.
        length = file.take(limit + 1).read_to_end(&mut bytes).map_err(unreadable)? as u64;
    }
    if length > limit {
        return Err(in_file(path, too_long(limit)));
    }
    Ok(bytes)
}

/// The error for a file that cannot be read. For folders it has words of our own, since each system
/// has other words.
fn unreadable(path: &Path, source: io::Error) -> FormatError {
    let source = if path.is_dir() { io::Error::other("got a folder, expected a file") } else { source };
    FormatError::Io { path: path.to_owned(), source }
}

/// Adds the file's path to an error about its content.
pub(crate) fn in_file(path: &Path, source: FormatError) -> FormatError {
    FormatError::InFile { path: path.to_owned(), source: Box::new(source) }
}

/// Reads a whole file and decodes it. Errors name the file.
pub(crate) fn read_with<T>(
    path: &Path,
    decode: impl FnOnce(&[u8]) -> Result<T, FormatError>,
) -> Result<T, FormatError> {
    decode(&read_bounded(path, MAX_DOCUMENT)?).map_err(|error| in_file(path, error))
}

/// The error for a file that is longer than its kind may be.
pub(super) fn too_long(limit: u64) -> FormatError {
    FormatError::Unexpected { found: format!("more than {limit} bytes"), expected: "a shorter file" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_too_long_is_not_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(11).unwrap();
        assert_eq!(read_bounded(file.path(), 11).unwrap(), [0; 11]);
        let error = read_bounded(file.path(), 10).unwrap_err().to_string();
        assert!(error.ends_with(": got more than 10 bytes, expected a shorter file"), "{error}");
    }
}
