//! Writing packs.

use std::collections::BTreeMap;

use diode_core::FailureReason;
use diode_core::ids::Digest;
use sha2::{Digest as _, Sha256};

use super::{Chunk, Index, Kernel, KernelRecord, MAGIC, Outcome, SCHEMA};

/// Bytes of the binaries in one chunk. They are enough to compress well, and few enough to unpack
/// quickly at the first launch.
const CHUNK_BYTES: usize = 2 << 20;
/// The highest level that is fast enough. A pack is built once and copied often.
const LEVEL: i32 = 19;

/// Collects kernels and makes the bytes of a pack. Kernels that are added one after the other share
/// chunks, so kernels that are used together should be added together.
pub struct PackWriter {
    index: Index,
    chunks: Vec<u8>,
    open: Vec<u8>,
}

impl PackWriter {
    pub fn new(arch: &str, toolchain: BTreeMap<String, String>) -> Self {
        let index = Index {
            schema: SCHEMA,
            arch: arch.to_owned(),
            toolchain,
            records: Vec::new(),
            chunks: Vec::new(),
        };
        Self { index, chunks: Vec::new(), open: Vec::new() }
    }

    /// Adds a kernel. `launch` has the kernel's threads, shared memory, registers and stack.
    pub fn add_built(&mut self, key: String, symbol: String, launch: [u32; 4], binary: &[u8]) {
        if !self.open.is_empty() && self.open.len() + binary.len() > CHUNK_BYTES {
            self.close_chunk();
        }
        let [threads, shared, registers, stack] = launch;
        let kernel = Kernel {
            symbol,
            threads,
            shared,
            registers,
            stack,
            chunk: self.index.chunks.len() as u32,
            start: self.open.len() as u64,
            len: binary.len() as u64,
        };
        self.open.extend_from_slice(binary);
        self.index.records.push(KernelRecord { key, outcome: Outcome::Built(kernel) });
    }

    /// Adds a kernel that could not be built, with the reason.
    pub fn add_failed(&mut self, key: String, reason: FailureReason, message: String) {
        self.index.records.push(KernelRecord { key, outcome: Outcome::Failed { reason, message } });
    }

    /// The bytes of the pack's file.
    pub fn finish(mut self) -> Vec<u8> {
        if !self.open.is_empty() {
            self.close_chunk();
        }
        let index =
            rmp_serde::to_vec_named(&self.index).expect("an index has nothing MessagePack cannot hold");
        let index = compress(&index);
        let mut bytes = MAGIC.to_vec();
        bytes.extend((index.len() as u64).to_le_bytes());
        bytes.extend(Sha256::digest(&index));
        bytes.extend(index);
        bytes.extend(self.chunks);
        bytes
    }

    fn close_chunk(&mut self) {
        let unpacked = std::mem::take(&mut self.open);
        let packed = compress(&unpacked);
        self.index.chunks.push(Chunk {
            packed: packed.len() as u64,
            unpacked: unpacked.len() as u64,
            digest: Digest::of(&packed).to_string(),
        });
        self.chunks.extend(packed);
    }
}

fn compress(bytes: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(bytes, LEVEL).expect("compressing into memory cannot fail")
}
