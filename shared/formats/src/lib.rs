//! Every byte that comes from outside is met here: torch-diode's JSON and
//! MessagePack datasets and Diode's own columnar format, specified in
//! `docs/formats.md`.
//!
//! Reading recognises a file by its content and survives hostile bytes: what it
//! is willing to hold is bounded by the constants in [`limits`], and every
//! failure is a [`FormatError`]. Writing never loses anything silently.
#![forbid(unsafe_code)]

mod bytes;
mod check;
mod columnar;
mod columns;
mod contents;
mod delimited;
mod dictionary;
mod digest;
mod document;
mod error;
mod file;
mod format;
pub mod limits;
mod msgpack;
pub mod packed;
mod place;
pub mod shapeset;
pub mod solution;
mod source;
mod torch;

pub use contents::{Kind, recognise};
pub use digest::{content_digest, solution_digest};
pub use error::FormatError;
pub use file::{read_file, write_atomically, write_file};
pub use format::Format;
pub use shapeset::{ShapeSet, decode_shapes, read_shapes};
pub use solution::{Reference, decode_solution, read_solution};
pub use source::{Decoded, decode};

use diode_core::Dataset;

/// Writes datasets in a format, or refuses with a list of what would be lost.
pub fn encode(format: Format, datasets: &[Dataset]) -> Result<Vec<u8>, FormatError> {
    check::check(datasets)?;
    match format {
        Format::TorchDiodeJson => torch::encode_json(datasets),
        Format::TorchDiodeMsgpack => torch::encode_msgpack(datasets),
        Format::Columnar => Ok(columnar::encode(datasets)),
    }
}
