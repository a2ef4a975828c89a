//! Opens files, and reads whole files of bounded length.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};
use std::path::Path;

use crate::FormatError;
use crate::error::Place;
use crate::error::malformed;
use crate::input::contents::{FileKind, recognise};
use crate::input::mark;
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
pub fn read_with<T>(
    path: &Path,
    decode: impl FnOnce(&[u8]) -> Result<T, FormatError>,
) -> Result<T, FormatError> {
    decode(&read_bounded(path, MAX_DOCUMENT)?).map_err(|error| in_file(path, error))
}

/// The error for a file that is longer than its kind may be.
pub(super) fn too_long(limit: u64) -> FormatError {
    FormatError::Unexpected { found: format!("more than {limit} bytes"), expected: "a shorter file" }
}

/// Reads a text of bounded length. `expected` says in errors what the text should be, such as `a
/// JSON list`.
pub fn read_text(path: &Path, limit: u64, expected: &'static str) -> Result<String, FormatError> {
    let bytes = read_bounded(path, limit)?;
    text(&bytes, expected).map(str::to_owned).map_err(|error| in_file(path, error))
}

/// Opens a text to read it piece by piece. Refuses a file that is too long or does not begin like
/// text.
pub fn open_text(path: &Path, limit: u64, expected: &'static str) -> Result<impl Read, FormatError> {
    let Opened { mut file, length, head } = open(path)?;
    if length > limit {
        return Err(in_file(path, too_long(limit)));
    }
    let start = mark(&head).and_then(|start| file.seek(SeekFrom::Start(start as u64)));
    start.map_err(|error| in_file(path, malformed("text", 0, &Place::default(), &error)))?;
    // `head` may end in the middle of a character.
    let cut = if length > head.len() as u64 { 3 } else { 0 };
    let whole = head.len() - head.iter().rev().take(cut).filter(|byte| !byte.is_ascii()).count();
    text(&head[..whole], expected).map_err(|error| in_file(path, error))?;
    Ok(BufReader::with_capacity(1 << 16, file.take(limit)))
}

fn text<'a>(bytes: &'a [u8], expected: &'static str) -> Result<&'a str, FormatError> {
    let unexpected = |found: String| FormatError::Unexpected { found, expected };
    let start = mark(bytes).map_err(|error| malformed("text", 0, &Place::default(), &error))?;
    std::str::from_utf8(&bytes[start..]).map_err(|error| match recognise(bytes) {
        // A table is a text. Where it holds other bytes, it is damaged.
        Some(kind) if kind != FileKind::Table => unexpected(kind.to_string()),
        _ => unexpected(format!("bytes that are not UTF-8 text (byte {})", start + error.valid_up_to())),
    })
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

#[cfg(test)]
mod text_tests {
    use super::*;

    #[test]
    fn marks_mean_nothing_and_other_encodings_are_called_by_their_names() {
        assert_eq!(text(b"\xef\xbb\xbf[1]", "a list").unwrap(), "[1]");
        assert_eq!(text(b"[1]", "a list").unwrap(), "[1]");
        let error = |bytes: &[u8]| text(bytes, "a list").unwrap_err().to_string();
        assert_eq!(
            error(b"\xff\xfe[\0"),
            "invalid text at byte 0: got a text in UTF-16, expected UTF-8; save it in that encoding"
        );
        assert_eq!(error(b"[\xe9]"), "got bytes that are not UTF-8 text (byte 1), expected a list");
        assert_eq!(
            error(b"PK\x03\x04\xff"),
            "got a torch checkpoint or another ZIP archive, expected a list"
        );
    }
}
