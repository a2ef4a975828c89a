//! Reads what an AMD code object states about its kernels' arguments.
//!
//! No AMD GPU is at hand to launch kernels on. So every code object is compared with the layout of
//! arguments that the launcher will write.

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

/// The place of one argument in the argument block.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Argument {
    #[serde(rename = ".offset")]
    pub(crate) offset: u64,
    #[serde(rename = ".size")]
    pub(crate) size: u64,
}

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
    #[serde(rename = ".kernarg_segment_size")]
    size: u64,
}

/// Checks the argument block of a kernel in a code object. The arguments must have these sizes,
/// each at its natural alignment, and Triton's two scratch pointers must follow. Nothing else may
/// be between them.
pub(crate) fn check_arguments(object: &[u8], symbol: &str, sizes: &[u64]) -> anyhow::Result<()> {
    let metadata: Metadata =
        rmp_serde::from_slice(note(object)?).context("unreadable metadata in the code object")?;
    let kernel = metadata.kernels.iter().find(|kernel| kernel.name == symbol);
    let kernel = kernel.with_context(|| format!("the code object has no kernel {symbol}"))?;
    let mut expected = Vec::new();
    let mut end = 0_u64;
    for &size in sizes.iter().chain(&[8, 8]) {
        let offset = end.next_multiple_of(size);
        expected.push(Argument { offset, size });
        end = offset + size;
    }
    ensure!(
        kernel.args == expected && kernel.size == end,
        "{symbol}: arguments lie at {:?} in {} bytes, expected {expected:?} in {end}",
        kernel.args,
        kernel.size
    );
    Ok(())
}

/// The note with the AMDGPU metadata in an ELF file.
fn note(object: &[u8]) -> anyhow::Result<&[u8]> {
    const SECTION_NOTE: u64 = 7;
    const NOTE_METADATA: u64 = 32;
    ensure!(object.starts_with(b"\x7fELF\x02\x01"), "not a 64-bit little-endian ELF file");
    let table = number(object, 40, 8)?;
    let (entry, count) = (number(object, 58, 2)?, number(object, 60, 2)?);
    for section in 0..count {
        let header = (table + section * entry) as usize;
        if number(object, header + 4, 4)? != SECTION_NOTE {
            continue;
        }
        let mut at = number(object, header + 24, 8)? as usize;
        let end = at + number(object, header + 32, 8)? as usize;
        while at < end {
            let (name, length) = (number(object, at, 4)? as usize, number(object, at + 4, 4)? as usize);
            let start = at + 12 + name.next_multiple_of(4);
            if number(object, at + 8, 4)? == NOTE_METADATA {
                return object.get(start..start + length).context("a note beyond the end of the file");
            }
            at = start + length.next_multiple_of(4);
        }
    }
    bail!("no AMDGPU metadata in the code object")
}

fn number(bytes: &[u8], at: usize, size: usize) -> anyhow::Result<u64> {
    let part = bytes.get(at..at + size).context("a header beyond the end of the file")?;
    Ok(part.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}
