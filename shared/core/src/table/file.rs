//! A table as JSON: one object per problem, meant to be read and edited.

use serde::{Deserialize, Serialize};

use super::entry::{EntryFields, entries, key};
use super::{Table, TableConfig};
use crate::error::Invalid;
use crate::hardware::Hardware;
use crate::{AccType, Config, ConfigFields, Method, Micros, Problem, RocmExtras, Template, Tile};

/// The name and version of the form. A change that old programs would misread
/// needs a new version.
const FORMAT: &str = "diode-table/1";

/// A table before validation. Fields that nobody knows are refused, so that a
/// misspelt edit does not pass for one that took effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableFile {
    format: String,
    hardware: Hardware,
    method: Method,
    #[serde(deserialize_with = "entries")]
    entries: Vec<EntryFields>,
}

/// A config and its time as one flat record. What a template does not have is
/// absent; what may be left out has Triton's usual value, and `even_k` the one
/// that K makes it.
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
            time_us: time,
        }
    }
}

impl TableConfigFields {
    fn config(self, k: u64) -> Result<TableConfig, Invalid> {
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
        })?;
        Ok(TableConfig { config, time: self.time_us })
    }
}

impl From<Table> for TableFile {
    fn from(table: Table) -> Self {
        let entries = table.iter().map(|(problem, configs)| EntryFields {
            problem: problem.clone().into(),
            configs: configs.iter().copied().map(TableConfigFields::from).collect(),
        });
        let entries = entries.collect();
        Self { format: FORMAT.to_owned(), hardware: table.hardware, method: table.method, entries }
    }
}

impl TryFrom<TableFile> for Table {
    type Error = Invalid;

    fn try_from(file: TableFile) -> Result<Self, Invalid> {
        if file.format != FORMAT {
            return Err(Invalid::new("table format", format_args!("`{}`", file.format), FORMAT));
        }
        file.hardware.validate()?;
        let mut table = Self::new(file.hardware, file.method);
        for (number, entry) in (1..).zip(file.entries) {
            let place = format!("entry {number}{}", key(&entry.problem));
            table.insert_fields(entry).map_err(|mut error| {
                error.what = format!("{place}: {}", error.what);
                error
            })?;
        }
        Ok(table)
    }
}

impl Table {
    fn insert_fields(&mut self, entry: EntryFields) -> Result<(), Invalid> {
        let problem = Problem::new(entry.problem)?;
        let mut configs = Vec::with_capacity(entry.configs.len());
        for (number, fields) in (1..).zip(entry.configs) {
            configs.push(fields.config(problem.k).map_err(|mut error| {
                error.what = format!("config {number}: {}", error.what);
                error
            })?);
        }
        self.insert(problem, configs)
    }
}
