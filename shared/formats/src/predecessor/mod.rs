//! torch-diode's datasets: one tree of maps, as JSON or as MessagePack; and its
//! tables, the same tree with configs in the place of timings.

mod ascii_json;
mod bare_words;
mod builder;
mod config;
mod losses;
mod memo;
mod msgpack_reader;
mod reduce;
mod shape;
mod tree_reader;
mod tree_writer;

use std::cell::RefCell;
use std::io::{BufReader, Read};

use diode_core::Dataset;
use serde::Serialize as _;
use serde::de::DeserializeSeed as _;

use crate::document::malformed_json;
use crate::source::Source;
use crate::{FormatError, LookupTable};
use ascii_json::AsciiJson;
use bare_words::BareWords;
use builder::Builder;
pub(crate) use config::PredecessorConfig;
pub(crate) use losses::losses;
pub(crate) use reduce::{plain, reduce};
pub(crate) use shape::Shape;
use tree_writer::Tree;

pub(crate) fn decode_json<R: Read>(source: Source<R>) -> Result<Vec<Dataset>, FormatError> {
    let builder = RefCell::new(Builder::new(source.max_timings()));
    let mut json = serde_json::Deserializer::from_reader(BufReader::new(BareWords::new(source)));
    tree_reader::root(&builder)
        .deserialize(&mut json)
        .and_then(|()| json.end())
        .map_err(|error| malformed_json(&error, builder.borrow().place()))?;
    Ok(builder.into_inner().finish())
}

pub(crate) fn decode_lookup_table<R: Read>(source: Source<R>) -> Result<Vec<LookupTable>, FormatError> {
    let builder = RefCell::new(Builder::new(source.max_timings()));
    let mut json = serde_json::Deserializer::from_reader(BufReader::new(BareWords::new(source)));
    tree_reader::table(&builder)
        .deserialize(&mut json)
        .and_then(|()| json.end())
        .map_err(|error| malformed_json(&error, builder.borrow().place()))?;
    Ok(builder.into_inner().finish_tables())
}

pub(crate) fn decode_msgpack<R: Read>(source: Source<R>) -> Result<Vec<Dataset>, FormatError> {
    msgpack_reader::read(source)
}

pub(crate) fn encode_json(datasets: &[Dataset]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut json = serde_json::Serializer::with_formatter(&mut out, AsciiJson::new());
    Tree(datasets).serialize(&mut json).expect("the tree has text keys and is written into memory");
    out
}

pub(crate) fn encode_msgpack(datasets: &[Dataset]) -> Vec<u8> {
    rmp_serde::to_vec(&Tree(datasets)).expect("the tree knows its lengths and is written into memory")
}
