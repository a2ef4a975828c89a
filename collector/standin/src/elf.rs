//! Finds out how large an ELF file in memory is, because a driver gets only its start.

use std::ffi::c_void;
use std::slice;

const HEADER: usize = 64;
/// More bytes than any kernel's file has.
const LARGEST: usize = 64 << 20;

/// The bytes of the ELF file that starts here. `None` if it is not a 64-bit ELF file.
pub(crate) fn file<'a>(start: *const c_void) -> Option<&'a [u8]> {
    // SAFETY: the caller gives the start of a file, and every file is at least as long as its
    // header.
    let header = unsafe { slice::from_raw_parts(start.cast::<u8>(), HEADER) };
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let table = |at: usize, size: usize, count: usize| {
        let (at, size, count) = (number(header, at, 8), number(header, size, 2), number(header, count, 2));
        (at, size, count)
    };
    let (segments, sections) = (table(32, 54, 56), table(40, 58, 60));
    let ends = [segments, sections].map(|(at, size, count)| at + size * count);
    let tables = ends.into_iter().max().filter(|&end| end <= LARGEST)?;
    // SAFETY: the file states that its tables reach this far.
    let known = unsafe { slice::from_raw_parts(start.cast::<u8>(), tables) };
    let entries = |(at, size, count): (usize, usize, usize)| (0..count).map(move |entry| at + entry * size);
    let segment_ends = entries(segments).map(|at| number(known, at + 8, 8) + number(known, at + 32, 8));
    let section_ends = entries(sections).map(|at| {
        // A section of this type takes no bytes in the file.
        const NOBITS: usize = 8;
        let size = if number(known, at + 4, 4) == NOBITS { 0 } else { number(known, at + 32, 8) };
        number(known, at + 24, 8) + size
    });
    let end = segment_ends.chain(section_ends).chain([tables]).max().filter(|&end| end <= LARGEST)?;
    // SAFETY: the caller gives the start of a file, and the file reaches to the end of its last
    // part.
    Some(unsafe { slice::from_raw_parts(start.cast::<u8>(), end) })
}

/// A little-endian number.
pub(crate) fn number(bytes: &[u8], at: usize, size: usize) -> usize {
    bytes[at..at + size].iter().rev().fold(0, |value, &byte| value << 8 | usize::from(byte))
}
