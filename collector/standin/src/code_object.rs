//! Reads what an AMD code object states about its kernels' arguments.

use std::ffi::c_void;
use std::slice;

use serde::Deserialize;

#[derive(Deserialize)]
struct Metadata {
    #[serde(rename = "amdhsa.kernels")]
    kernels: Vec<Kernel>,
}

#[derive(Deserialize)]
struct Kernel {
    #[serde(rename = ".name")]
    name: String,
    #[serde(rename = ".args")]
    args: Vec<Argument>,
}

#[derive(Deserialize)]
struct Argument {
    #[serde(rename = ".offset")]
    offset: u64,
    #[serde(rename = ".size")]
    size: u64,
    #[serde(rename = ".value_kind", default)]
    kind: String,
}

/// The offsets and sizes of a kernel's arguments, without those that HIP itself passes. `None` if the file does not state them.
pub(crate) fn arguments(file: &[u8], symbol: &str) -> Option<Vec<[u64; 2]>> {
    let metadata: Metadata = rmp_serde::from_slice(note(file)?).ok()?;
    let kernel = metadata.kernels.into_iter().find(|kernel| kernel.name == symbol)?;
    let passed = kernel.args.into_iter().filter(|argument| !argument.kind.starts_with("hidden_"));
    Some(passed.map(|argument| [argument.offset, argument.size]).collect())
}

/// The note with the AMDGPU metadata in an ELF file.
fn note(file: &[u8]) -> Option<&[u8]> {
    const SECTION_NOTE: usize = 7;
    const NOTE_METADATA: usize = 32;
    let (table, size, count) = (number(file, 40, 8), number(file, 58, 2), number(file, 60, 2));
    let sections = (0..count).map(|section| table + section * size);
    sections.filter(|&at| number(file, at + 4, 4) == SECTION_NOTE).find_map(|at| {
        let (mut at, length) = (number(file, at + 24, 8), number(file, at + 32, 8));
        let end = at + length;
        while at < end {
            let (name, length) = (number(file, at, 4), number(file, at + 4, 4));
            let start = at + 12 + name.next_multiple_of(4);
            if number(file, at + 8, 4) == NOTE_METADATA {
                return file.get(start..start + length);
            }
            at = start + length.next_multiple_of(4);
        }
        None
    })
}

/// The offset and the size of each argument, for arguments of these sizes. Each lies at its natural
/// alignment, without further gaps.
pub(crate) fn laid_out(sizes: &[u64]) -> Vec<[u64; 2]> {
    let place = |end: &mut u64, &size: &u64| {
        let offset = end.next_multiple_of(size);
        *end = offset + size;
        Some([offset, size])
    };
    sizes.iter().scan(0, place).collect()
}

const HEADER: usize = 64;
/// More bytes than any kernel's file has.
const LARGEST: usize = 64 << 20;

/// The bytes of the ELF file that starts here. `None` if it is not a 64-bit ELF file.
pub(crate) fn elf_file<'a>(start: *const c_void) -> Option<&'a [u8]> {
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
