//! All decoding of bytes from outside: torch-diode's datasets, shape sets, reference
//! configs, tables and models, Diode's own columnar format, CSV and Parquet. The formats
//! are specified in `docs/reference/formats.md`.
//!
//! Readers recognise a file by its content. Hostile bytes do no harm: the constants in [`limits`]
//! bound the memory that readers use, and every failure is a [`FormatError`]. Writers never lose
//! anything silently.
//!
//! The layers, from the lowest:
//!
//! - `error` and [`limits`];
//! - `input` opens, unpacks, bounds and recognises what is read; `bytes`, `columns` and `msgpack` read
//!   numbers, columns with their configs, and tokens;
//! - one module per format: `columnar`, `rows` (CSV and Parquet), `nested`, [`pack`]
//!   and [`stored`];
//! - `nested` has torch-diode's two formats of datasets, JSON and MessagePack; `diode-compat` reads
//!   torch-diode's other files, with the parts in [`reading`];
//! - `decode` recognises the format by content, and `encode` writes the format that its caller or the name of
//!   a file names.
//!
//! The browser has neither C libraries nor files, so there this crate only decodes.
#![forbid(unsafe_code)]
#![cfg_attr(target_family = "wasm", allow(dead_code, unused_imports, reason = "what only writers use"))]

#[cfg(not(target_family = "wasm"))]
mod atomic;
mod bytes;
mod columnar;
mod columns;
mod digest;
#[cfg(not(target_family = "wasm"))]
mod encode;
mod error;
mod format;
mod input;
pub mod limits;
mod msgpack;
mod nested;
#[cfg(not(target_family = "wasm"))]
pub mod pack;
mod rows;
#[cfg(not(target_family = "wasm"))]
pub mod stored;

#[cfg(not(target_family = "wasm"))]
pub use atomic::{check_writable, write_atomically, write_new, write_privately};
pub use digest::size_and_digest;
pub use digest::{SolutionDigests, content_digest, solution_digest};
#[cfg(not(target_family = "wasm"))]
pub use encode::{Reduced, encode, held, left_out, losses, reduce};
#[cfg(not(target_family = "wasm"))]
pub use encode::{read_file, read_file_watched, write_file};
pub use error::FormatError;
pub use format::Format;
pub use format::{Decoded, decode, decode_within, may_travel};
pub use input::contents::{FileKind, may_be_timings, recognise};
pub use input::file::{open_text, read_text};
pub use input::file::{read_bounded, read_head};
pub use input::is_sound;
pub use nested::LookupTable;
pub use nested::{decode_lookup_table, read_lookup_table};

/// Parts for readers of other files.
pub mod reading {
    pub use crate::bytes::{Corrupt, Cursor};
    pub use crate::error::refused;
    pub use crate::input::contents::expect;
    pub use crate::input::delimited::{Delimited, locate};
    pub use crate::input::document::{Document, Entries};
    pub use crate::input::file::read_with;
    pub use crate::nested::{PredecessorConfig, Shape};
}
