//! Reads packs. The index is read first, and binaries when they are needed.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use diode_core::KernelVariant;
use diode_core::ids::Digest;
use diode_core::kernel_variant::EXACT_SIZES;
use sha2::{Digest as _, Sha256};

use super::{Chunk, ENCODING, Index, Kernel, KernelRecord, MAGIC, Outcome, PREFACE, SCHEMA};
use crate::FormatError;
use crate::input::file::open_regular;
use crate::limits::{MAX_PACK_CHUNK, MAX_PACK_CHUNKS, MAX_PACK_INDEX, MAX_PACK_KERNELS};

/// An open pack. Its index is in memory, and its binaries are in the file.
pub struct Pack {
    path: PathBuf,
    file: File,
    digest: Digest,
    index: Index,
    by_key: HashMap<String, usize>,
    /// Where each chunk starts in the file.
    starts: Vec<u64>,
    /// The chunk that was read last. It is kept because kernels that are used together share a chunk.
    last: Option<(u32, Arc<Vec<u8>>)>,
}

impl Pack {
    /// Opens a pack and checks its index. Binaries are read when they are needed.
    pub fn open(path: &Path) -> Result<Self, FormatError> {
        Self::read(open_regular(path)?, path)
    }

    /// Reads a pack from an open file. Errors name the pack by `path`.
    pub fn read(mut file: File, path: &Path) -> Result<Self, FormatError> {
        let io = |source| FormatError::Io { path: path.to_owned(), source };
        let size = file.metadata().map_err(io)?.len();
        let refuse = |state, at: usize, cause: String| refuse(path, state, at, cause);

        let mut preface = [0; PREFACE];
        file.read_exact(&mut preface).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                refuse("truncated", 0, format!("got {size} bytes, expected at least {PREFACE}"))
            }
            _ => io(error),
        })?;
        if &preface[..8] != MAGIC {
            return Err(refuse(
                "invalid",
                0,
                "this is not a kernel pack; `diode kernels build` makes one".into(),
            ));
        }
        let mut length = [0; 8];
        length.copy_from_slice(&preface[8..16]);
        let length = u64::from_le_bytes(length);
        if length > MAX_PACK_INDEX || length > size - PREFACE as u64 {
            let most = MAX_PACK_INDEX.min(size - PREFACE as u64);
            let state = if length > MAX_PACK_INDEX { "invalid" } else { "truncated" };
            return Err(refuse(state, 8, format!("an index of {length} bytes, expected at most {most}")));
        }
        let mut packed = vec![0; length as usize];
        file.read_exact(&mut packed).map_err(io)?;
        let hash: [u8; 32] = Sha256::digest(&packed).into();
        if hash != preface[16..] {
            return Err(refuse(
                "invalid",
                16,
                "the index does not have the digest that the file states".into(),
            ));
        }
        let unpacked = zstd::bulk::decompress(&packed, MAX_PACK_INDEX as usize)
            .map_err(|error| refuse("invalid", PREFACE, format!("the index does not unpack: {error}")))?;
        let index: Index = rmp_serde::from_slice(&unpacked)
            .map_err(|error| refuse("invalid", PREFACE, format!("the index is unreadable: {error}")))?;
        let starts = check(&index, PREFACE as u64 + length, size)
            .map_err(|(state, cause)| refuse(state, PREFACE, cause))?;
        let by_key = index.records.iter().enumerate().map(|(i, record)| (record.key.clone(), i)).collect();
        Ok(Self {
            path: path.to_owned(),
            file,
            digest: Digest::from_hash(hash),
            index,
            by_key,
            starts,
            last: None,
        })
    }

    /// The digest of the index. It names the whole content of the pack.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }

    /// The GPU architecture: `sm_90`, `gfx942`.
    pub fn arch(&self) -> &str {
        &self.index.arch
    }

    /// The versions of the programs that compiled the kernels.
    pub fn toolchain(&self) -> &BTreeMap<String, String> {
        &self.index.toolchain
    }

    pub fn records(&self) -> &[KernelRecord] {
        &self.index.records
    }

    /// What became of a kernel. `None` if the pack was built without it.
    pub fn find(&self, key: &str) -> Option<&Outcome> {
        self.by_key.get(key).map(|&number| &self.index.records[number].outcome)
    }

    /// The number of kernels of each variant, including kernels that could not be built. Kernels that round
    /// float32 to TF32 are not counted, because no problem needs them.
    pub fn variants(&self) -> BTreeMap<KernelVariant, u64> {
        let mut variants = BTreeMap::new();
        for record in self.records().iter().filter(|record| !record.key.contains(";tf32;")) {
            if let Some(variant) = KernelVariant::of_kernel(&record.key) {
                *variants.entry(variant).or_default() += 1;
            }
        }
        variants
    }

    /// The digest of the whole file, by which blobs are named. [`Self::digest`] names the same content.
    pub fn file_digest(&mut self) -> Result<Digest, FormatError> {
        let io = |source| FormatError::Io { path: self.path.clone(), source };
        let (mut hash, mut piece) = (Sha256::new(), vec![0; 1 << 20]);
        self.file.seek(SeekFrom::Start(0)).map_err(io)?;
        loop {
            let length = self.file.read(&mut piece).map_err(io)?;
            if length == 0 {
                return Ok(Digest::from_hash(hash.finalize().into()));
            }
            hash.update(&piece[..length]);
        }
    }

    /// Whether the pack was built for the exact sizes of some problems.
    pub fn is_exact(&self) -> bool {
        self.records().iter().any(|record| record.key.contains(EXACT_SIZES))
    }

    /// Reads every chunk, so that damage shows now and not at a launch.
    pub fn check(&mut self) -> Result<(), FormatError> {
        (0..self.index.chunks.len()).try_for_each(|number| self.read_chunk(number as u32).map(drop))
    }

    /// The binary of one of this pack's kernels.
    pub fn binary(&mut self, kernel: &Kernel) -> Result<Vec<u8>, FormatError> {
        let chunk = match &self.last {
            Some((number, bytes)) if *number == kernel.chunk => Arc::clone(bytes),
            _ => {
                let bytes = Arc::new(self.read_chunk(kernel.chunk)?);
                self.last = Some((kernel.chunk, Arc::clone(&bytes)));
                bytes
            }
        };
        // These bounds hold: the index was checked when the pack was opened.
        Ok(chunk[kernel.start as usize..(kernel.start + kernel.len) as usize].to_vec())
    }

    fn read_chunk(&mut self, number: u32) -> Result<Vec<u8>, FormatError> {
        let Chunk { packed, unpacked, digest } = &self.index.chunks[number as usize];
        let start = self.starts[number as usize];
        let refuse = |cause| refuse(&self.path, "invalid", start as usize, cause);
        let io = |source| FormatError::Io { path: self.path.clone(), source };
        let mut bytes = vec![0; *packed as usize];
        self.file.seek(SeekFrom::Start(start)).and_then(|_| self.file.read_exact(&mut bytes)).map_err(io)?;
        if Digest::of(&bytes).as_str() != digest {
            return Err(refuse(format!("chunk {number} does not have the digest that the index states")));
        }
        zstd::bulk::decompress(&bytes, *unpacked as usize)
            .ok()
            .filter(|bytes| bytes.len() as u64 == *unpacked)
            .ok_or_else(|| refuse(format!("chunk {number} does not unpack to {unpacked} bytes")))
    }
}

fn refuse(path: &Path, state: &'static str, at: usize, cause: String) -> FormatError {
    let malformed = FormatError::Malformed {
        state,
        encoding: ENCODING,
        at: format!("byte {at}"),
        place: String::new(),
        cause,
    };
    FormatError::InFile { path: path.to_owned(), source: Box::new(malformed) }
}

/// Checks everything that later reads rely on. Returns the starts of the chunks.
fn check(index: &Index, chunks_at: u64, size: u64) -> Result<Vec<u64>, (&'static str, String)> {
    if index.schema != SCHEMA {
        let given = index.schema;
        return Err(("invalid", format!("schema {given}, expected {SCHEMA}; update diode to read it")));
    }
    let counts =
        [("kernels", index.records.len(), MAX_PACK_KERNELS), ("chunks", index.chunks.len(), MAX_PACK_CHUNKS)];
    for (what, given, limit) in counts {
        if given > limit {
            return Err(("invalid", format!("{given} {what}, expected at most {limit}")));
        }
    }
    let mut starts = Vec::new();
    let mut at = chunks_at;
    for chunk in &index.chunks {
        if chunk.packed > MAX_PACK_CHUNK || chunk.unpacked > MAX_PACK_CHUNK {
            let largest = chunk.packed.max(chunk.unpacked);
            return Err((
                "invalid",
                format!("a chunk of {largest} bytes, expected at most {MAX_PACK_CHUNK}"),
            ));
        }
        starts.push(at);
        at += chunk.packed;
    }
    if at != size {
        let state = if size < at { "truncated" } else { "invalid" };
        return Err((state, format!("the file has {size} bytes, expected {at}")));
    }
    for record in &index.records {
        let Outcome::Built(kernel) = &record.outcome else { continue };
        let room = index.chunks.get(kernel.chunk as usize).map_or(0, |chunk| chunk.unpacked);
        if kernel.start.checked_add(kernel.len).is_none_or(|end| end > room) {
            return Err(("invalid", format!("kernel {:.200} stands outside of its chunk", record.key)));
        }
    }
    Ok(starts)
}

#[cfg(test)]
mod tests {
    use diode_core::FailureReason;

    use super::super::PackWriter;
    use super::*;

    fn sample() -> Vec<u8> {
        let mut writer = PackWriter::new("sm_90", BTreeMap::from([("triton".into(), "3.6.0".into())]));
        writer.add_built("first".into(), "mm".into(), [128, 4096, 64, 0], &[7; 100]);
        writer.add_failed("second".into(), FailureReason::OutOfResources, "too much".into());
        writer.add_built("third".into(), "mm".into(), [256, 0, 255, 16], &vec![9; 3 << 20]);
        writer.finish()
    }

    fn open(bytes: &[u8]) -> Result<Pack, FormatError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.pack");
        crate::write_atomically(&path, bytes).unwrap();
        Pack::open(&path)
    }

    #[test]
    fn what_was_added_comes_back() {
        let mut pack = open(&sample()).unwrap();
        assert_eq!((pack.arch(), pack.records().len()), ("sm_90", 3));
        assert_eq!(pack.toolchain()["triton"], "3.6.0");
        assert_eq!(pack.find("fourth"), None);
        assert!(
            matches!(pack.find("second"), Some(Outcome::Failed { message, .. }) if message == "too much")
        );
        for (key, length) in [("third", 3 << 20), ("first", 100)] {
            let Some(Outcome::Built(kernel)) = pack.find(key).cloned() else { panic!("{key}") };
            assert_eq!(pack.binary(&kernel).unwrap().len(), length);
        }
    }

    #[test]
    fn places_are_in_the_order_of_the_chunks() {
        let mut writer = PackWriter::new("sm_90", BTreeMap::new());
        for number in 0..6 {
            writer.add_built(format!("{number}"), "mm".into(), [128, 0, 64, 0], &vec![number; 1 << 20]);
        }
        let pack = open(&writer.finish()).unwrap();
        let place = |number: usize| match pack.find(&number.to_string()) {
            Some(Outcome::Built(kernel)) => kernel.place(),
            other => panic!("{other:?}"),
        };
        let places: Vec<_> = (0..6).map(place).collect();
        let chunks: Vec<u32> = places.iter().map(|(chunk, _)| *chunk).collect();
        assert!(places.is_sorted() && chunks == [0, 0, 1, 1, 2, 2], "{places:?}");
    }

    #[test]
    fn every_damage_is_noticed() {
        let bytes = sample();
        for length in (0..bytes.len()).step_by(7).chain([bytes.len() - 1]) {
            assert!(open(&bytes[..length]).is_err(), "{length} bytes");
        }
        let mut longer = bytes.clone();
        longer.push(0);
        assert!(open(&longer).is_err());
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 4;
            let Ok(mut pack) = open(&damaged) else { continue };
            let kernels: Vec<Kernel> = pack
                .records()
                .iter()
                .filter_map(|record| match &record.outcome {
                    Outcome::Built(kernel) => Some(kernel.clone()),
                    Outcome::Failed { .. } => None,
                })
                .collect();
            assert!(kernels.iter().any(|kernel| pack.binary(kernel).is_err()), "byte {at}");
        }
    }

    #[test]
    fn another_file_is_named_as_such() {
        let error = open(&[b'x'; 100]).err().unwrap().to_string();
        assert!(error.contains("this is not a kernel pack"), "{error}");
    }
}
