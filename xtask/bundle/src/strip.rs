//! Removes what a browser does not need from the compiled programs.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, bail};

/// The length of the magic number and the version.
const HEADER: usize = 8;
/// The type of sections that browsers skip.
const CUSTOM: u8 = 0;

/// The program without its custom sections, such as the names of functions: they are for people and tools. wasm-bindgen
/// removes them from the first piece only, and no other tool processes the later ones.
pub(crate) fn without_custom_sections(wasm: &[u8]) -> anyhow::Result<Vec<u8>> {
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

/// wasm-bindgen gives the functions of its glue such names. They end in the digits of a hash.
const BEGINNING: &[u8] = b"__wbg_";
const DIGITS: usize = 16;

/// Replaces the hash in each name of the glue by a small number with as many digits. Equal hashes become the same number
/// in all files. A hash is of no use if program and glue are made together, and hashes do not compress: they would add
/// more than 4 kB to the first load.
pub(crate) fn number_imports(files: &mut [Vec<u8>]) {
    let mut known: BTreeMap<Vec<u8>, Vec<Vec<u8>>> = BTreeMap::new();
    for bytes in files {
        let mut end = 0;
        while let Some(before) = bytes[end..].windows(BEGINNING.len()).position(|part| part == BEGINNING) {
            let start = end + before;
            end = start + bytes[start..].iter().take_while(|byte| is_of_a_name(**byte)).count();
            let name = &bytes[start..end];
            let Some((stem, hash)) = name.split_at_checked(name.len().saturating_sub(DIGITS)) else {
                continue;
            };
            if !stem.ends_with(b"_") || !hash.iter().all(u8::is_ascii_hexdigit) {
                continue;
            }
            let hashes = known.entry(stem.to_vec()).or_default();
            let number = hashes.iter().position(|known| known == hash).unwrap_or(hashes.len());
            if number == hashes.len() {
                hashes.push(hash.to_vec());
            }
            bytes[end - DIGITS..end].copy_from_slice(format!("{number:0DIGITS$}").as_bytes());
        }
    }
}

fn is_of_a_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

const END: &[u8] = b".rs";
/// No path is longer than this.
const LONGEST: usize = 200;

/// Overwrites the paths of dependencies' sources with zeros, so that no text moves. Only panics of dependencies would
/// print them, and nobody sees these in a browser. Without the paths, the first load is 1 kB smaller.
pub(crate) fn blank_source_paths(bytes: &mut [u8]) {
    blank_after(bytes, b"/rustc/");
    if let Some(home) = cargo_home() {
        blank_after(bytes, home.join("registry/src/").as_os_str().as_encoded_bytes());
    }
}

fn cargo_home() -> Option<PathBuf> {
    let of = |name| std::env::var_os(name).map(PathBuf::from);
    of("CARGO_HOME").or_else(|| Some(of("HOME")?.join(".cargo")))
}

fn blank_after(bytes: &mut [u8], beginning: &[u8]) {
    let mut at = 0;
    while let Some(found) = find(&bytes[at..], beginning) {
        let start = at + found;
        let rest = start + beginning.len();
        let most = rest + bytes[rest..].len().min(LONGEST);
        at = rest;
        if let Some(length) = find(&bytes[rest..most], END) {
            at = rest + length + END.len();
            bytes[start..at].fill(0);
        }
    }
}

fn find(bytes: &[u8], text: &[u8]) -> Option<usize> {
    bytes.windows(text.len()).position(|window| window == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_stays_and_names_go() {
        let start = b"\0asm\x01\0\0\0";
        let long = [&[10, 0x82, 0x01][..], &[7; 130]].concat();
        let wasm = [&start[..], &[0, 5, 4], b"name", &[1, 2, 9, 9], &long, &[0, 1, 0]].concat();
        assert_eq!(without_custom_sections(&wasm).unwrap(), [&start[..], &[1, 2, 9, 9], &long].concat());
        for broken in
            [&b"\0as"[..], b"no wasm here", &wasm[..wasm.len() - 1], &[&start[..], &[1, 0x80]].concat()]
        {
            without_custom_sections(broken).unwrap_err();
        }
    }

    #[test]
    fn names_stay_different_and_fit_together() {
        let mut files = [
            b"__wbg_new_847fd86b8c33ec43: __wbg_new_357687340e1d996a, __wbg_item_357687340e1d996a, __wbg_get_imports".to_vec(),
            b"\x1a__wbg_new_357687340e1d996a\0__wbg_ptr\x1a__wbg_new_847fd86b8c33ec43\0".to_vec(),
        ];
        number_imports(&mut files);
        assert_eq!(
            files,
            [
                b"__wbg_new_0000000000000000: __wbg_new_0000000000000001, __wbg_item_0000000000000000, __wbg_get_imports".to_vec(),
                b"\x1a__wbg_new_0000000000000001\0__wbg_ptr\x1a__wbg_new_0000000000000000\0".to_vec(),
            ]
        );
    }

    #[test]
    fn paths_become_zeros() {
        let mut bytes = b"a/rustc/0f/core/x.rsnot /rustc/ without an end".to_vec();
        blank_after(&mut bytes, b"/rustc/");
        let zeros = [0; "/rustc/0f/core/x.rs".len()];
        assert_eq!(bytes, [&b"a"[..], &zeros, b"not /rustc/ without an end"].concat());
    }

    #[test]
    fn paths_in_cargos_home_become_zeros() {
        let home = cargo_home().expect("cargo has a home").join("registry/src/");
        let mut bytes = [home.as_os_str().as_encoded_bytes(), b"index/a-1.0/src/lib.rs"].concat();
        blank_source_paths(&mut bytes);
        assert!(bytes.iter().all(|&byte| byte == 0));
    }
}
