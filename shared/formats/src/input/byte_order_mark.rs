//! Byte order marks: some programs put one before a text to name its encoding.

use std::io;

/// Some programs on Windows put this before UTF-8, where it has no meaning.
const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";

/// The marks of UTF-16. No format here is written in UTF-16.
const UTF16_MARKS: [&[u8]; 2] = [b"\xff\xfe", b"\xfe\xff"];

/// The length of the mark at the beginning, or 0. Formats other than text never begin with a mark.
pub(crate) fn mark(head: &[u8]) -> io::Result<usize> {
    if UTF16_MARKS.iter().any(|mark| head.starts_with(mark)) {
        return Err(io::Error::other("got a text in UTF-16, expected UTF-8; save it in that encoding"));
    }
    Ok(if head.starts_with(UTF8_MARK) { UTF8_MARK.len() } else { 0 })
}

/// Some bytes without the mark at their beginning, if there is one.
pub(crate) fn without_mark(bytes: &[u8]) -> &[u8] {
    &bytes[mark(bytes).unwrap_or(0)..]
}
