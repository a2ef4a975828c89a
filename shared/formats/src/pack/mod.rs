//! Kernel packs: GPU kernels compiled ahead of time, in one file.
//!
//! ```text
//! "DIODEPK1" · length of the index (u64) · SHA-256 of the index · index · chunks
//! ```
//!
//! Numbers are little-endian. The index is MessagePack under zstd. It says what every
//! kernel needs to be launched, and where in which chunk its binary is. A chunk is
//! many similar binaries under zstd, which compress well together. The index holds
//! the digest of every chunk, so the digest of the index names the whole content. A
//! chunk is read and checked when it is first needed.

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
/// Readers refuse any other schema.
const SCHEMA: u32 = 1;

const ENCODING: &str = "kernel pack";
