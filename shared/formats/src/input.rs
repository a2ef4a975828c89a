//! What all readers share: opening files, bounded reading, unpacking, and recognising files.

pub(crate) mod contents;
pub(crate) mod delimited;
pub(crate) mod document;
pub(crate) mod file;
pub(crate) mod source;
#[cfg(any(test, target_family = "wasm"))]
mod zstd_in_rust;
