//! Kernel packs: GPU kernels compiled ahead of time, in one file.
//!
//! ```text
//! "DIODEPK1" · length of the index (u64) · SHA-256 of the index · index · chunks
//! ```
//!
//! Numbers are little-endian. The index is MessagePack under zstd. It says how each kernel is
//! launched, and in which chunk and where its binary is. A chunk is many binaries under zstd;
//! similar binaries compress well together. The index holds the digest of every chunk, so the
//! digest of the index names the whole content. A chunk is read and checked when it is first
//! needed.

mod reader;

use std::collections::BTreeMap;

use diode_core::FailureReason;
use diode_core::ids::Digest;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

pub use crate::pack::reader::Pack;

const MAGIC: &[u8; 8] = b"DIODEPK1";
/// The bytes before the index: the magic bytes, the index's length and its digest.
const PREFACE: usize = 8 + 8 + 32;
/// Readers refuse any other schema.
const SCHEMA: u32 = 1;

const ENCODING: &str = "kernel pack";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Index {
    pub(crate) schema: u32,
    pub(crate) arch: String,
    pub(crate) toolchain: BTreeMap<String, String>,
    #[serde(rename = "entries")]
    pub(crate) records: Vec<KernelRecord>,
    pub(crate) chunks: Vec<Chunk>,
}

/// Many binaries that are compressed together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Chunk {
    /// Its bytes in the file.
    pub(crate) packed: u64,
    /// Its bytes after unpacking.
    pub(crate) unpacked: u64,
    /// The SHA-256 of its bytes in the file, in hex.
    pub(crate) digest: String,
}

/// A kernel that the pack was asked to have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KernelRecord {
    /// What the kernel computes and how. The builder and the backend use the same words.
    pub key: String,
    pub outcome: Outcome,
}

/// What became of a kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Built(Kernel),
    Failed { reason: FailureReason, message: String },
}

/// What is needed to launch a kernel, and where its binary is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// The function's name in the binary.
    pub symbol: String,
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// Registers per thread.
    pub registers: u32,
    /// Bytes of stack per thread. If above 0, registers were spilled to memory.
    pub stack: u32,
    pub(crate) chunk: u32,
    pub(crate) start: u64,
    pub(crate) len: u64,
}

impl Kernel {
    /// The kernel's place in its pack. Reading kernels in the order of their places unpacks no part
    /// of the pack twice.
    pub fn place(&self) -> (u32, u64) {
        (self.chunk, self.start)
    }
}

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
