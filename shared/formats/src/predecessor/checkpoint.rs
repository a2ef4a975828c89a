//! torch checkpoints: a ZIP archive of a pickle and raw tensors.
//!
//! A pickle is a program for a stack machine, and it may call any function. The weights of a
//! network need few instructions and four named functions and classes. Only these are known here.
//! Anything else is an error, and no code from the file ever runs.

mod archive;
mod calls;
mod machine;
mod pickle;
mod tensors;
mod value;

use std::path::Path;

use diode_core::TorchCheckpoint;

use crate::FormatError;
use crate::bytes::Corrupt;
use crate::input::contents::{FileKind, expect};
use crate::input::file::read_with;
use crate::limits::MAX_CHECKPOINT;
use archive::Archive;

/// Reads a checkpoint that torch wrote.
pub fn read_checkpoint(path: &Path) -> Result<TorchCheckpoint, FormatError> {
    read_with(path, decode_checkpoint)
}

/// Decodes a checkpoint: a map with `model_state_dict` and some plain values.
pub fn decode_checkpoint(bytes: &[u8]) -> Result<TorchCheckpoint, FormatError> {
    expect(FileKind::TorchCheckpoint, bytes, || {
        if bytes.len() > MAX_CHECKPOINT {
            let cause = format!("{} bytes, expected at most {MAX_CHECKPOINT}", bytes.len());
            return Err(malformed("file", Corrupt::invalid(0, cause)));
        }
        let archive = Archive::open(bytes).map_err(|corrupt| malformed("file", corrupt))?;
        if let Some(order) = archive.entry("byteorder").filter(|order| *order != b"little") {
            let cause = format!("got {}, expected little", String::from_utf8_lossy(order));
            return Err(malformed("byteorder", Corrupt::invalid(0, cause)));
        }
        let pickle = archive.pickle().map_err(|corrupt| malformed("file", corrupt))?;
        let machine = pickle::run(pickle).map_err(|corrupt| malformed("data.pkl", corrupt))?;
        tensors::checkpoint(&archive, &machine)
            .map_err(|cause| malformed("data.pkl", Corrupt::invalid(pickle.len(), cause)))
    })
}

fn malformed(part: &str, corrupt: Corrupt) -> FormatError {
    corrupt.malformed("torch checkpoint", |at| format!("{part} byte {at}"))
}
