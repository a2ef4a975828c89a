//! Diode's own format: a stream of MessagePack objects under one zstd frame, specified in
//! `docs/reference/formats.md`. Beside the datasets themselves, readers and writers hold one
//! problem at a time.

#[cfg(test)]
mod forged;
mod reader;
mod records;
#[cfg(not(target_family = "wasm"))]
mod writer;

pub(crate) use reader::decode;
#[cfg(not(target_family = "wasm"))]
pub(crate) use writer::encode;

const ENCODING: &str = "columnar MessagePack";

/// Whether some bytes begin like a columnar file: with a small map whose first key is `format`.
pub(crate) fn begins(head: &[u8]) -> bool {
    head.first().is_some_and(|marker| marker & 0xf0 == 0x80) && head[1..].starts_with(b"\xa6format")
}
