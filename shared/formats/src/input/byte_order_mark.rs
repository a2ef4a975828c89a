//! The marks that some programs put before a text to name its encoding.

use std::io;

/// What programs on Windows put before UTF-8. It means nothing.
const UTF8_MARK: &[u8] = b"\xef\xbb\xbf";

/// What they put before UTF-16, which no format here is written in.
const UTF16_MARKS: [&[u8]; 2] = [b"\xff\xfe", b"\xfe\xff"];

/// How many of the first bytes are a mark to pass over. No format that is not text begins with a mark.
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
