//! Blanks the paths of the sources of dependencies. Only panics of dependencies would print them, and nobody sees these
//! in a browser. Without the paths, the first load is 1 kB smaller.

use std::path::PathBuf;

const END: &[u8] = b".rs";
/// No path is longer than this.
const LONGEST: usize = 200;

/// Overwrites the paths with zeros, so that no text moves.
pub(crate) fn blank(bytes: &mut [u8]) {
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
        blank(&mut bytes);
        assert!(bytes.iter().all(|&byte| byte == 0));
    }
}
