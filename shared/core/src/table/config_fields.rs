//! The configs in a table's file.

use serde::{Deserialize, Serialize};

use super::TableConfig;
use crate::error::Invalid;
use crate::{AccType, Config, ConfigFields, Micros, RocmExtras, Template, Tile};

/// A config and its time as one flat record. Fields that the template does not have are absent. An
/// absent `even_k` follows from K; other absent fields have Triton's usual value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TableConfigFields {
    template: Template,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    block_m: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    block_n: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    block_k: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    group_m: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    num_stages: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    num_warps: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    even_k: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    allow_tf32: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    use_fast_accum: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    acc_type: Option<AccType>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    rocm: Option<RocmExtras>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    k_split: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    swap_ab: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    time_us: Option<Micros>,
}

impl From<TableConfig> for TableConfigFields {
    fn from(TableConfig { config, time }: TableConfig) -> Self {
        let fields = ConfigFields::from(config);
        Self {
            template: fields.template,
            block_m: fields.block_m,
            block_n: fields.block_n,
            block_k: fields.block_k,
            group_m: fields.group_m,
            num_stages: fields.num_stages,
            num_warps: fields.num_warps,
            even_k: fields.even_k,
            allow_tf32: fields.allow_tf32,
            use_fast_accum: fields.use_fast_accum,
            acc_type: fields.acc_type,
            rocm: fields.rocm,
            k_split: fields.k_split,
            swap_ab: fields.swap_ab,
            time_us: time,
        }
    }
}

impl TableConfigFields {
    pub(super) fn config(self, k: u64) -> Result<TableConfig, Invalid> {
        let usual = Tile::new(16, 16, 16, 1, 1);
        let even_k = self.even_k.or(self.block_k.map(|block| {
            let block = u64::from(block);
            block != 0 && k.is_multiple_of(block)
        }));
        let config = Config::try_from(ConfigFields {
            template: self.template,
            block_m: self.block_m,
            block_n: self.block_n,
            block_k: self.block_k,
            group_m: self.group_m.or(self.template.has_tile().then_some(usual.group_m)),
            num_stages: self.num_stages,
            num_warps: self.num_warps,
            even_k,
            allow_tf32: self.allow_tf32,
            use_fast_accum: self.use_fast_accum,
            acc_type: self.acc_type,
            rocm: self.rocm,
            k_split: self.k_split,
            swap_ab: self.swap_ab,
        })?;
        Ok(TableConfig { config, time: self.time_us })
    }
}
