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
//! - `input` opens, unpacks, bounds and recognises what is read; `bytes`, `columns`,
//!   `dictionary` and `msgpack` read numbers, columns, configs and tokens;
//! - one module per format: `columnar`, `rows` (CSV and Parquet), `predecessor`, [`pack`]
//!   and [`stored`];
//! - `decode` recognises the format by content, `encode` writes the format that its caller
//!   names, and `dataset_file` writes the format that a file's name names.
//!
//! The browser has neither C libraries nor files, so there this crate only decodes.
#![forbid(unsafe_code)]
#![cfg_attr(target_family = "wasm", allow(dead_code, unused_imports, reason = "what only writers use"))]

#[cfg(not(target_family = "wasm"))]
mod atomic;
mod bytes;
mod check_before_writing;
mod columnar;
mod columns;
#[cfg(not(target_family = "wasm"))]
mod dataset_file;
mod decode;
mod dictionary;
mod digest;
#[cfg(not(target_family = "wasm"))]
mod encode;
mod error;
mod error_place;
mod file_digest;
mod format;
mod input;
pub mod limits;
mod msgpack;
#[cfg(not(target_family = "wasm"))]
pub mod pack;
mod predecessor;
mod rows;
#[cfg(not(target_family = "wasm"))]
pub mod stored;

#[cfg(not(target_family = "wasm"))]
pub use atomic::{check_writable, write_atomically, write_privately};
#[cfg(not(target_family = "wasm"))]
pub use dataset_file::{read_file, write_file};
pub use decode::{Decoded, decode, decode_within};
pub use digest::{SolutionDigests, content_digest, solution_digest};
#[cfg(not(target_family = "wasm"))]
pub use encode::{Reduced, encode, held, left_out, losses, reduce};
pub use error::FormatError;
pub use file_digest::size_and_digest;
pub use format::Format;
pub use input::compression::is_sound;
pub use input::contents::{FileKind, may_be_timings, recognise};
pub use input::file::{read_bounded, read_head};
pub use input::text::{open_text, read_text};
pub use predecessor::checkpoint::{decode_checkpoint, read_checkpoint};
pub use predecessor::lookup_table::LookupTable;
pub use predecessor::reference_configs::{
    ReferenceConfig, ReferenceConfigs, Scope, decode_reference_configs, read_reference_configs,
};
pub use predecessor::shape_set::{ShapeForm, ShapeSet, decode_shapes, read_shapes};
pub use predecessor::tree::{decode_lookup_table, read_lookup_table};
