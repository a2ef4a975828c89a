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

mod index;
mod reader;
mod writer;

pub use index::{Kernel, KernelRecord, Outcome};
pub use reader::Pack;
pub use writer::PackWriter;

pub(crate) use index::{Chunk, Index};

const MAGIC: &[u8; 8] = b"DIODEPK1";
/// The bytes before the index: the magic bytes, the index's length and its digest.
const PREFACE: usize = 8 + 8 + 32;
/// Readers refuse any other schema.
const SCHEMA: u32 = 1;

const ENCODING: &str = "kernel pack";
