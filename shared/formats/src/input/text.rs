//! Reads text files of bounded length.

use std::io::{BufReader, Read, Seek as _, SeekFrom};
use std::path::Path;

use super::byte_order_mark::mark;
use super::contents::{FileKind, recognise};
use super::file::{Opened, in_file, open, read_bounded, too_long};
use super::malformed::malformed;
use crate::FormatError;
use crate::error_place::Place;

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
