//! Kernel packs: GPU kernels compiled ahead of time, in one file.
//!
//! ```text
//! "DIODEPK1" · length of the index (u64) · SHA-256 of the index · index · chunks
//! ```
//!
//! Numbers are little-endian. The index is MessagePack under zstd: what every
//! kernel needs to be launched, and where in which chunk its binary stands. A
//! chunk is many binaries under zstd, alike enough to shrink each other. The
//! index holds the digest of every chunk, so the digest of the index names the
//! whole content, and a chunk is read and checked when it is first needed.

mod index;
mod reader;
mod writer;

pub use index::{Kernel, KernelRecord, Outcome};
pub use reader::Pack;
pub use writer::PackWriter;

pub(crate) use index::{Chunk, Index};

const MAGIC: &[u8; 8] = b"DIODEPK1";
/// Magic, length and digest of the index.
const PREFACE: usize = 8 + 8 + 32;
/// Readers refuse any other.
const SCHEMA: u32 = 1;

const ENCODING: &str = "kernel pack";
