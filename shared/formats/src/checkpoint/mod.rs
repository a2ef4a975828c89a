//! torch checkpoints: a ZIP archive of a pickle and of raw tensors.
//!
//! A pickle is a program for a stack machine that may call any function. Here a
//! handful of its instructions and four named things are understood, which is all
//! that the weights of a network take; anything else is an error and nothing of
//! it is run.

mod archive;
mod pickle;
mod tensors;
mod value;

use std::path::Path;

use diode_core::TorchCheckpoint;

use crate::bytes::Corrupt;
use crate::contents::{self, Kind};
use crate::file::read_with;
use crate::limits::MAX_CHECKPOINT;
use crate::{FormatError, place::Place};
use archive::Archive;

/// Reads a checkpoint that torch wrote.
pub fn read_checkpoint(path: &Path) -> Result<TorchCheckpoint, FormatError> {
    read_with(path, decode_checkpoint)
}

/// Decodes a checkpoint: a map with `model_state_dict` and plain values beside it.
pub fn decode_checkpoint(bytes: &[u8]) -> Result<TorchCheckpoint, FormatError> {
    contents::expect(Kind::TorchCheckpoint, bytes, || {
        if bytes.len() > MAX_CHECKPOINT {
            let cause = format!("{} bytes, expected at most {MAX_CHECKPOINT}", bytes.len());
            return Err(malformed("file", Corrupt { truncated: false, at: 0, cause }));
        }
        let archive = Archive::open(bytes).map_err(|corrupt| malformed("file", corrupt))?;
        if let Some(order) = archive.entry("byteorder").filter(|order| *order != b"little") {
            let cause = format!("got {}, expected little", String::from_utf8_lossy(order));
            return Err(malformed("byteorder", Corrupt { truncated: false, at: 0, cause }));
        }
        let pickle = archive.pickle().map_err(|corrupt| malformed("file", corrupt))?;
        let machine = pickle::run(pickle).map_err(|corrupt| malformed("data.pkl", corrupt))?;
        tensors::checkpoint(&archive, &machine)
            .map_err(|cause| malformed("data.pkl", Corrupt { truncated: false, at: pickle.len(), cause }))
    })
}

fn malformed(part: &str, corrupt: Corrupt) -> FormatError {
    FormatError::Malformed {
        state: if corrupt.truncated { "truncated" } else { "invalid" },
        encoding: "torch checkpoint",
        at: format!("{part} byte {}", corrupt.at),
        place: Place::default().to_string(),
        cause: corrupt.cause,
    }
}
