use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use diode_core::ids::Digest;
use sha2::{Digest as _, Sha256};

/// Bytes that are read at a time.
const PIECE: usize = 1 << 20;

/// The size and the digest of a file. The file may be larger than memory.
pub fn size_and_digest(path: &Path) -> io::Result<(u64, Digest)> {
    let (mut file, mut hash, mut size) = (File::open(path)?, Sha256::new(), 0);
    let mut piece = vec![0; PIECE];
    loop {
        let length = file.read(&mut piece)?;
        if length == 0 {
            return Ok((size, Digest::from_hash(hash.finalize().into())));
        }
        hash.update(&piece[..length]);
        size += length as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_file_has_the_digest_of_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let (path, bytes) = (folder.path().join("x"), vec![7; PIECE + 5]);
        crate::write_atomically(&path, &bytes).unwrap();
        assert_eq!(size_and_digest(&path).unwrap(), (bytes.len() as u64, Digest::of(&bytes)));
    }
}
