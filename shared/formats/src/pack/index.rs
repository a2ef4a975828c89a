//! The index of a pack: what it holds and how to launch it.

use std::collections::BTreeMap;

use diode_core::FailureReason;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Index {
    pub(crate) schema: u32,
    pub(crate) arch: String,
    pub(crate) toolchain: BTreeMap<String, String>,
    #[serde(rename = "entries")]
    pub(crate) records: Vec<KernelRecord>,
    pub(crate) chunks: Vec<Chunk>,
}

/// Many binaries, compressed together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Chunk {
    /// Bytes in the file.
    pub(crate) packed: u64,
    /// Bytes once unpacked.
    pub(crate) unpacked: u64,
    /// SHA-256 of the bytes in the file, in hex.
    pub(crate) digest: String,
}

/// One kernel that was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KernelRecord {
    /// What it computes and how, in the words that the builder and the backend share.
    pub key: String,
    pub outcome: Outcome,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Built(Kernel),
    Failed { reason: FailureReason, message: String },
}

/// What a launch needs, and where the binary is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// The function's name in the binary.
    pub symbol: String,
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// Per thread.
    pub registers: u32,
    /// Bytes per thread; above 0, registers were spilled to memory.
    pub stack: u32,
    pub(crate) chunk: u32,
    pub(crate) start: u64,
    pub(crate) len: u64,
}

impl Kernel {
    /// Where it is in its pack. Whoever reads kernels in this order unpacks no part of the pack twice.
    pub fn place(&self) -> (u32, u64) {
        (self.chunk, self.start)
    }
}
