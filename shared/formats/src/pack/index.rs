//! The index of a pack: which kernels it holds, and how they are launched.

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
