//! torch-diode's datasets and lookup tables. A dataset is a tree of maps, as JSON or as
//! MessagePack. A lookup table is the same tree with configs in place of timings.

mod builder;
mod config;
mod json_reader;
mod msgpack_reader;
mod reduce;
mod shape;
mod writer;

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use diode_core::hardware::Hardware;
use diode_core::{ConfigDictionary, ConfigIndex, Dataset, Invalid, Problem, Table};
use serde::Serialize as _;
use serde::de::DeserializeSeed;

use crate::FormatError;
use crate::input::contents::{FileKind, expect};
use crate::input::file::{Opened, in_file, open};
use crate::input::malformed::malformed_json;
use crate::input::source::Source;
use crate::nested::builder::Builder;
use crate::nested::json_reader::BareWords;
use crate::nested::writer::PythonJson;
use crate::nested::writer::Tree;

pub(crate) use crate::nested::reduce::losses;
pub(crate) use crate::nested::reduce::{plain, reduce};
pub use config::PredecessorConfig;
pub use shape::Shape;

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

/// The table of one hardware.
#[derive(Debug, Clone, PartialEq)]
pub struct LookupTable {
    pub hardware: Hardware,
    pub configs: ConfigDictionary,
    /// The problems in file order. Each has its configs, with the best first.
    pub problems: Vec<(Problem, Vec<ConfigIndex>)>,
}

impl LookupTable {
    /// Converts to a table in Diode's own form.
    pub fn into_table(self) -> Result<Table, Invalid> {
        let configs = self.configs;
        let choices = self.problems.into_iter().map(|(problem, choices)| {
            let choices = choices.iter().map(|&index| *configs.get(index)).collect();
            (problem, choices)
        });
        Table::from_choices(self.hardware, choices)
    }
}

#[cfg(test)]
mod lookup_table_tests {
    use super::*;
    use crate::decode_lookup_table;

    const CONFIG: &str = r#"{"ACC_TYPE": "tl.float32", "block_k": 16, "block_m": 64, "block_n": 32, "grid": 1,
        "group_m": 8, "name": "mm_config", "num_stages": 2, "num_warps": 4}"#;
    const KEY: &str = r#"{\"version\": 1, \"B\": 1, \"M\": 64, \"M_dtype\": \"bfloat16\", \"N\": 128, \"K\": 32, \"K_dtype\": \"bfloat16\", \"out_dtype\": \"bfloat16\", \"out_size\": [1, 64, 128], \"out_stride\": [8192, 128, 1]}"#;

    fn table(configs: &str) -> String {
        format!(
            r#"{{"hardware": {{"NVIDIA H100": {{"operation": {{"mm": {{"solution": {{"{KEY}": {{"config": [{configs}], "version": 1}}}}, "version": 1}}}}, "version": 1}}}}, "version": 1}}"#
        )
    }

    #[test]
    fn configs_keep_their_order_and_their_repeats() {
        let other = CONFIG.replace("\"num_warps\": 4", "\"num_warps\": 8");
        let text = table(&[CONFIG, &other, CONFIG].join(", "));
        let packed = zstd::encode_all(text.as_bytes(), 3).unwrap();
        for bytes in [text.as_bytes(), &packed] {
            let [lut] = &decode_lookup_table(bytes).unwrap()[..] else { panic!("one kind of hardware") };
            assert_eq!(lut.hardware.slug.as_str(), "nvidia-h100");
            let [(problem, choices)] = &lut.problems[..] else { panic!("one problem") };
            assert_eq!(problem.dims(), "64×128×32");
            assert_eq!(choices, &[0, 1, 0].map(ConfigIndex));
            assert_eq!(lut.configs.get(ConfigIndex(1)).tile().unwrap().num_warps, 8);
        }
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        let error = |text: &str| decode_lookup_table(text.as_bytes()).unwrap_err().to_string();
        let bad = table(&CONFIG.replace("64", "48"));
        assert!(error(&bad).contains("op mm, problem 1): block_m: got 48"), "{}", error(&bad));
        assert!(error(r#"{"shapes": []}"#).starts_with("got a shape set"));
        let message = crate::decode(table(CONFIG).as_bytes()).unwrap_err().to_string();
        assert!(message.starts_with("got a lookup table"), "{message}");
    }
}
