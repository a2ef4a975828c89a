//! The beginnings and the ends of texts: marks of their encoding, and how long they may be.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};
use std::path::Path;

use crate::FormatError;
use crate::contents::recognise;
use crate::file::{Opened, in_file, open, unreadable};
use crate::place::Place;
use crate::source::malformed;

/// What programs on Windows put before UTF-8. It means nothing.
const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";

/// What they put before UTF-16, which nothing here is written in.
const UTF16_MARKS: [&[u8]; 2] = [b"\xff\xfe", b"\xfe\xff"];

/// How many of the first bytes are a mark to pass over. No form that is not text begins with a mark.
pub(crate) fn mark(head: &[u8]) -> io::Result<usize> {
    if UTF16_MARKS.iter().any(|mark| head.starts_with(mark)) {
        return Err(io::Error::other("got a text in UTF-16, expected UTF-8; save it in that encoding"));
    }
    Ok(if head.starts_with(UTF8_MARK) { UTF8_MARK.len() } else { 0 })
}

/// Some bytes without the mark that they may begin with.
pub(crate) fn without_mark(bytes: &[u8]) -> &[u8] {
    &bytes[mark(bytes).unwrap_or(0)..]
}

/// Reads a whole file, if it is not too long. Nothing of a longer one is held.
pub fn read_bounded(path: &Path, limit: u64) -> Result<Vec<u8>, FormatError> {
    let unreadable = |source| unreadable(path, source);
    let file = File::open(path).map_err(unreadable)?;
    let mut bytes = Vec::new();
    let mut length = file.metadata().map_err(unreadable)?.len();
    if length <= limit {
        // What is no regular file does not know its length.
        length = file.take(limit + 1).read_to_end(&mut bytes).map_err(unreadable)? as u64;
    }
    if length > limit {
        return Err(in_file(path, too_long(limit)));
    }
    Ok(bytes)
}

/// Reads a text of a bounded length. `expected` is what it is to be, such as `a JSON list`.
pub fn read_text(path: &Path, limit: u64, expected: &'static str) -> Result<String, FormatError> {
    let bytes = read_bounded(path, limit)?;
    text(&bytes, expected).map(str::to_owned).map_err(|error| in_file(path, error))
}

/// Opens a text that is read piece by piece, if it is not too long and begins as text does.
pub fn open_text(path: &Path, limit: u64, expected: &'static str) -> Result<impl Read, FormatError> {
    let Opened { mut file, length, head } = open(path)?;
    if length > limit {
        return Err(in_file(path, too_long(limit)));
    }
    let start = mark(&head).and_then(|start| file.seek(SeekFrom::Start(start as u64)));
    start.map_err(|error| in_file(path, malformed("text", 0, &Place::default(), &error)))?;
    // The last character of the head may be cut off.
    let cut = if length > head.len() as u64 { 3 } else { 0 };
    let whole = head.len() - head.iter().rev().take(cut).filter(|byte| !byte.is_ascii()).count();
    text(&head[..whole], expected).map_err(|error| in_file(path, error))?;
    Ok(BufReader::with_capacity(1 << 16, file.take(limit)))
}

fn too_long(limit: u64) -> FormatError {
    FormatError::Unexpected { found: format!("more than {limit} bytes"), expected: "a shorter file" }
}

fn text<'a>(bytes: &'a [u8], expected: &'static str) -> Result<&'a str, FormatError> {
    let unexpected = |found: String| FormatError::Unexpected { found, expected };
    let start = mark(bytes).map_err(|error| malformed("text", 0, &Place::default(), &error))?;
    std::str::from_utf8(&bytes[start..]).map_err(|error| match recognise(bytes) {
        Some(kind) => unexpected(kind.to_string()),
        None => unexpected(format!("bytes that are not UTF-8 text (byte {})", start + error.valid_up_to())),
    })
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn a_file_that_is_too_long_is_not_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(11).unwrap();
        assert_eq!(read_bounded(file.path(), 11).unwrap(), [0; 11]);
        let error = read_bounded(file.path(), 10).unwrap_err().to_string();
        assert!(error.ends_with(": got more than 10 bytes, expected a shorter file"), "{error}");
    }
}
