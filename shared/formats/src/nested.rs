//! torch-diode's datasets and lookup tables. A dataset is a tree of maps, as JSON or as
//! MessagePack. A lookup table is the same tree with configs in place of timings.

mod builder;
mod json_reader;
mod msgpack_reader;
mod reduce;
mod shape;
mod writer;

use std::cell::RefCell;
use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use diode_core::hardware::Hardware;
use diode_core::space::config_for;
use diode_core::{
    AccType, Config, ConfigDictionary, ConfigIndex, Dataset, Invalid, Op, Problem, Table, Tile,
};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer, de};

use crate::FormatError;
use crate::error::malformed_json;
use crate::input::Source;
use crate::input::contents::{FileKind, expect};
use crate::input::file::{Opened, in_file, open};
use crate::nested::builder::Builder;
use crate::nested::json_reader::BareWords;
use crate::nested::writer::{PythonJson, Tree};

pub(crate) use crate::nested::reduce::{losses, plain, reduce};
pub use crate::nested::shape::Shape;

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

/// The version that torch-diode writes into every object.
const VERSION: u64 = 1;

/// A `version` field. torch-diode itself never reads it, so its value does not matter.
#[derive(Debug, Clone, Copy, Default)]
struct Version;

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u64::deserialize(deserializer).map(|_| Self)
    }
}

impl Serialize for Version {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(VERSION)
    }
}

/// The fields as files hold them. `name` and `grid` must be there, but do not change what runs.
#[derive(serde::Deserialize)]
pub struct PredecessorConfig {
    #[serde(rename = "name")]
    _name: IgnoredAny,
    #[serde(rename = "grid")]
    _grid: u32,
    block_m: u32,
    block_n: u32,
    block_k: u32,
    group_m: u32,
    num_stages: u32,
    num_warps: u32,
    #[serde(rename = "EVEN_K", default)]
    even_k: bool,
    #[serde(rename = "ALLOW_TF32", default)]
    allow_tf32: bool,
    #[serde(rename = "USE_FAST_ACCUM", default)]
    use_fast_accum: bool,
    #[serde(rename = "ACC_TYPE", default = "float32")]
    acc_type: AccType,
    /// Diode's own field.
    #[serde(default)]
    swap_ab: bool,
    #[serde(rename = "version", default)]
    _version: Version,
}

fn float32() -> AccType {
    AccType::Float32
}

impl PredecessorConfig {
    /// The tile of these fields, after validation.
    pub fn tile(&self) -> Result<Tile, Invalid> {
        let tile = Tile {
            block_m: self.block_m,
            block_n: self.block_n,
            block_k: self.block_k,
            group_m: self.group_m,
            num_stages: self.num_stages,
            num_warps: self.num_warps,
            even_k: self.even_k,
            allow_tf32: self.allow_tf32,
            use_fast_accum: self.use_fast_accum,
            acc_type: self.acc_type,
            rocm: None,
            swap_ab: self.swap_ab,
        };
        Config::Mm(tile).validate()?;
        Ok(tile)
    }

    fn into_config<E: de::Error>(self, op: Op) -> Result<Config, E> {
        self.tile().map(|tile| config_for(op, tile)).map_err(E::custom)
    }
}

/// Reads a config for this op.
struct ConfigSeed(Op);

impl<'de> DeserializeSeed<'de> for ConfigSeed {
    type Value = Config;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Config, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ConfigSeed {
    type Value = Config;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a config: a map, or its JSON text as in older files")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Config, A::Error> {
        PredecessorConfig::deserialize(MapAccessDeserializer::new(map))?.into_config(self.0)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Config, E> {
        serde_json::from_str::<PredecessorConfig>(text)
            .map_err(|error| E::custom(format_args!("config text: {error}")))?
            .into_config(self.0)
    }
}

/// Writes a config for this op, with its keys in byte order.
struct ConfigMap<'a> {
    op: Op,
    tile: &'a Tile,
}

impl Serialize for ConfigMap<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let t = self.tile;
        let mut map = serializer.serialize_map(Some(13 + usize::from(t.swap_ab)))?;
        map.serialize_entry("ACC_TYPE", t.acc_type.as_str())?;
        map.serialize_entry("ALLOW_TF32", &t.allow_tf32)?;
        map.serialize_entry("EVEN_K", &t.even_k)?;
        map.serialize_entry("USE_FAST_ACCUM", &t.use_fast_accum)?;
        map.serialize_entry("block_k", &t.block_k)?;
        map.serialize_entry("block_m", &t.block_m)?;
        map.serialize_entry("block_n", &t.block_n)?;
        map.serialize_entry("grid", &1)?;
        map.serialize_entry("group_m", &t.group_m)?;
        map.serialize_entry("name", config_name(self.op))?;
        map.serialize_entry("num_stages", &t.num_stages)?;
        map.serialize_entry("num_warps", &t.num_warps)?;
        if t.swap_ab {
            map.serialize_entry("swap_ab", &true)?;
        }
        map.serialize_entry("version", &Version)?;
        map.end()
    }
}

fn config_name(op: Op) -> &'static str {
    match op {
        Op::Mm => "mm_config",
        Op::Addmm => "addmm_config",
        Op::Bmm => "bmm_config",
        Op::Baddbmm => "baddbmm_config",
        Op::ScaledMm => "scaled_mm_config",
        Op::GroupedMm => "grouped_mm_config",
        Op::ScaledGroupedMm => "scaled_grouped_mm_config",
        Op::FusedMoe => "fused_moe_config",
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
