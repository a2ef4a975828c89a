//! torch-diode's TritonGEMMConfig, as a map or, in older files, as JSON text.

use std::fmt;

use diode_core::space::config_for;
use diode_core::{AccType, Config, Invalid, Op, Tile};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::{Serialize, Serializer, ser::SerializeMap as _};

/// The version that torch-diode writes into every object.
const VERSION: u64 = 1;

/// A `version` field. torch-diode itself never reads it, so its value does not matter.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Version;

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
pub(super) struct ConfigSeed(pub(super) Op);

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
pub(super) struct ConfigMap<'a> {
    pub(super) op: Op,
    pub(super) tile: &'a Tile,
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
