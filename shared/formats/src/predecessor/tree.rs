//! torch-diode's datasets and lookup tables. A dataset is a tree of maps, as JSON or as
//! MessagePack. A lookup table is the same tree with configs in place of timings.

mod builder;
mod infinity;
mod json_reader;
mod losses;
mod memo;
mod msgpack_reader;
mod python_json;
mod reduce;
mod writer;

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use diode_core::Dataset;
use serde::Serialize as _;
use serde::de::DeserializeSeed;

use super::lookup_table::LookupTable;
use crate::FormatError;
use crate::input::contents::{FileKind, expect};
use crate::input::file::{Opened, in_file, open};
use crate::input::malformed::malformed_json;
use crate::input::source::Source;
use builder::Builder;
use infinity::BareWords;
pub(crate) use losses::losses;
use python_json::PythonJson;
pub(crate) use reduce::{plain, reduce};
use writer::Tree;

pub(crate) fn decode_json<R: Read>(source: Source<R>) -> Result<Vec<Dataset>, FormatError> {
    let builder = RefCell::new(Builder::new(source.max_timings()));
    read_json(source, json_reader::root(&builder), &builder)?;
    Ok(builder.into_inner().finish())
}

/// Reads a lookup table, whatever the file's name. Only a part of the file is in memory at a time.
pub fn read_lookup_table(path: &Path) -> Result<Vec<LookupTable>, FormatError> {
    let Opened { file, length, head } = open(path)?;
    let input = BufReader::with_capacity(1 << 16, file);
    decode_lookup_tables(input, length, &head).map_err(|error| in_file(path, error))
}

/// Decodes lookup tables from JSON, compressed or not. There is one for each hardware name.
pub fn decode_lookup_table(bytes: &[u8]) -> Result<Vec<LookupTable>, FormatError> {
    decode_lookup_tables(bytes, bytes.len() as u64, bytes)
}

fn decode_lookup_tables<R: BufRead>(
    input: R,
    length: u64,
    head: &[u8],
) -> Result<Vec<LookupTable>, FormatError> {
    expect(FileKind::LookupTable, head, || {
        let source = Source::open(input, length)?;
        let builder = RefCell::new(Builder::new(source.max_timings()));
        read_json(source, json_reader::table(&builder), &builder)?;
        Ok(builder.into_inner().finish_tables())
    })
}

/// Reads JSON as Python writes it. `tree` hands each part to the builder.
fn read_json<'de, R: Read>(
    source: Source<R>,
    tree: impl DeserializeSeed<'de, Value = ()>,
    builder: &RefCell<Builder>,
) -> Result<(), FormatError> {
    let mut json = serde_json::Deserializer::from_reader(BufReader::new(BareWords::new(source)));
    tree.deserialize(&mut json)
        .and_then(|()| json.end())
        .map_err(|error| malformed_json(&error, builder.borrow().place()))
}

pub(crate) fn decode_msgpack<R: Read>(source: Source<R>) -> Result<Vec<Dataset>, FormatError> {
    msgpack_reader::read(source)
}

pub(crate) fn encode_json(datasets: &[Dataset]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut json = serde_json::Serializer::with_formatter(&mut out, PythonJson::new());
    Tree(datasets).serialize(&mut json).expect("the tree has text keys and is written into memory");
    out
}

pub(crate) fn encode_msgpack(datasets: &[Dataset]) -> Vec<u8> {
    rmp_serde::to_vec(&Tree(datasets)).expect("the tree knows its lengths and is written into memory")
}
