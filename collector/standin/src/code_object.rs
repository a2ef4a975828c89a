//! Reads what an AMD code object states about its kernels' arguments.

use serde::Deserialize;

use crate::elf::number;

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
