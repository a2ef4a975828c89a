//! Reference configs as JSON or MessagePack, in three forms.

use std::fmt;

use diode_core::{AccType, Config, Field, Invalid, Problem, Tile};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use super::{DEFAULT_OP, ReferenceConfig, Scope};
use crate::predecessor::config::PredecessorConfig;

/// A file in one of three JSON forms. The top-level keys tell which.
pub(super) struct File(pub(super) Vec<ReferenceConfig>);

impl<'de> Deserialize<'de> for File {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FileVisitor)
    }
}

struct FileVisitor;

impl<'de> Visitor<'de> for FileVisitor {
    type Value = File;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map with `config`, `configs` or operations")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<File, A::Error> {
        let mut configs = Vec::new();
        let mut seen: Vec<String> = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            if seen.contains(&key) {
                return Err(A::Error::custom(format_args!("duplicate key {key:.200?}")));
            }
            let mut add = |scope, list: Vec<PredecessorConfig>| {
                for (number, config) in (1..).zip(list) {
                    let tile = config.tile().map_err(|invalid| {
                        A::Error::custom(format_args!("config {number} of {key:.200?}: {invalid}"))
                    })?;
                    configs.push(ReferenceConfig { scope, tile });
                }
                Ok(())
            };
            match key.as_str() {
                "config" => add(Scope::Everything, map.next_value()?)?,
                "configs" => {
                    for (number, config) in (1..).zip(map.next_value::<Vec<SizedConfig>>()?) {
                        let config = config.reference().map_err(|invalid| {
                            A::Error::custom(format_args!("config {number} of \"configs\": {invalid}"))
                        })?;
                        configs.push(config);
                    }
                }
                DEFAULT_OP => add(Scope::Everything, map.next_value::<ConfigList>()?.config)?,
                other => match other.parse() {
                    Ok(op) => add(Scope::Op(op), map.next_value::<ConfigList>()?.config)?,
                    Err(_) => {
                        map.next_value::<IgnoredAny>()?;
                    }
                },
            }
            seen.push(key);
        }
        Ok(File(configs))
    }
}

#[derive(Deserialize)]
struct ConfigList {
    config: Vec<PredecessorConfig>,
}

/// A config for one size. Missing fields have Triton's usual settings.
#[derive(Deserialize)]
struct SizedConfig {
    #[serde(rename = "M")]
    m: u64,
    #[serde(rename = "N")]
    n: u64,
    #[serde(rename = "K")]
    k: u64,
    block_m: u32,
    block_n: u32,
    block_k: u32,
    num_stages: u32,
    num_warps: u32,
    group_m: Option<u32>,
    #[serde(rename = "EVEN_K")]
    even_k: Option<bool>,
    #[serde(rename = "ALLOW_TF32")]
    allow_tf32: Option<bool>,
    #[serde(rename = "USE_FAST_ACCUM")]
    use_fast_accum: Option<bool>,
    #[serde(rename = "ACC_TYPE")]
    acc_type: Option<AccType>,
}

impl SizedConfig {
    fn reference(self) -> Result<ReferenceConfig, Invalid> {
        let plain = Tile::new(self.block_m, self.block_n, self.block_k, self.num_stages, self.num_warps);
        let tile = Tile {
            group_m: self.group_m.unwrap_or(plain.group_m),
            even_k: self.even_k.unwrap_or(plain.even_k),
            allow_tf32: self.allow_tf32.unwrap_or(plain.allow_tf32),
            use_fast_accum: self.use_fast_accum.unwrap_or(plain.use_fast_accum),
            acc_type: self.acc_type.unwrap_or(plain.acc_type),
            ..plain
        };
        Config::Mm(tile).validate()?;
        for (field, size) in [(Field::M, self.m), (Field::N, self.n), (Field::K, self.k)] {
            if size == 0 || size > Problem::MAX_DIM {
                let expected = format!("a size from 1 to {}", Problem::MAX_DIM);
                return Err(Invalid::new(field, size, expected));
            }
        }
        Ok(ReferenceConfig { scope: Scope::Size { m: self.m, n: self.n, k: self.k }, tile })
    }
}
