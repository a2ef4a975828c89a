//! Removes the sections of a program that a browser does not need, such as the names of functions. They are
//! for people and tools.
//!
//! wasm-bindgen removes them from the first piece only. No other tool processes the later pieces.

use anyhow::{Context, bail};

/// The length of the magic number and the version.
const HEADER: usize = 8;
/// The type of sections that browsers skip.
const CUSTOM: u8 = 0;

/// The program without its custom sections.
pub(crate) fn drop_all(wasm: &[u8]) -> anyhow::Result<Vec<u8>> {
    let header = wasm.get(..HEADER).filter(|header| header.starts_with(b"\0asm"));
    let mut kept = header.context("got a piece that is no WebAssembly")?.to_vec();
    let mut rest = &wasm[HEADER..];
    while let Some((&kind, after)) = rest.split_first() {
        let (size, digits) = number(after)?;
        let Some((section, next)) = rest.split_at_checked(1 + digits + size) else {
            bail!("a section of {size} bytes is cut off");
        };
        if kind != CUSTOM {
            kept.extend_from_slice(section);
        }
        rest = next;
    }
    Ok(kept)
}

/// A number with seven bits per byte, lowest bits first, and how many bytes it takes.
fn number(bytes: &[u8]) -> anyhow::Result<(usize, usize)> {
    let mut value = 0;
    for (place, byte) in bytes.iter().enumerate().take(5) {
        value |= usize::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Ok((value, place + 1));
        }
    }
    bail!("the size of a section is cut off or too large")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_stays_and_names_go() {
        let start = b"\0asm\x01\0\0\0";
        let long = [&[10, 0x82, 0x01][..], &[7; 130]].concat();
        let wasm = [&start[..], &[0, 5, 4], b"name", &[1, 2, 9, 9], &long, &[0, 1, 0]].concat();
        assert_eq!(drop_all(&wasm).unwrap(), [&start[..], &[1, 2, 9, 9], &long].concat());
        for broken in
            [&b"\0as"[..], b"no wasm here", &wasm[..wasm.len() - 1], &[&start[..], &[1, 0x80]].concat()]
        {
            drop_all(broken).unwrap_err();
        }
    }
}
