//! Shortens the names under which a program finds the functions of its glue.
//!
//! wasm-bindgen ends each name in the digits of a hash. The hash is of no use if program and glue are made
//! together, and hashes do not compress. They would add more than 4 kB to the first load.

use std::collections::BTreeMap;

const BEGINNING: &[u8] = b"__wbg_";
const DIGITS: usize = 16;

/// Replaces each hash by a small number with as many digits. Equal hashes become the same number in all
/// files.
pub(crate) fn number(files: &mut [Vec<u8>]) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_different_and_fit_together() {
        let mut files = [
            b"__wbg_new_847fd86b8c33ec43: __wbg_new_357687340e1d996a, __wbg_item_357687340e1d996a, __wbg_get_imports".to_vec(),
            b"\x1a__wbg_new_357687340e1d996a\0__wbg_ptr\x1a__wbg_new_847fd86b8c33ec43\0".to_vec(),
        ];
        number(&mut files);
        assert_eq!(
            files,
            [
                b"__wbg_new_0000000000000000: __wbg_new_0000000000000001, __wbg_item_0000000000000000, __wbg_get_imports".to_vec(),
                b"\x1a__wbg_new_0000000000000001\0__wbg_ptr\x1a__wbg_new_0000000000000000\0".to_vec(),
            ]
        );
    }
}
