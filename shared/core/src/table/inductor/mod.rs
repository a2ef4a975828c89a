//! A table in the form of Inductor's own `lookup_table` setting: what is put
//! there compiles without any benchmark, and without this project installed.

mod entry;
mod key;
#[cfg(test)]
mod tests;

use std::ops::Deref;

use indexmap::IndexMap;
use serde::{Serialize, Serializer};

pub use entry::InductorEntry;
pub use key::{DeviceName, PythonNumber, Scalars, device_name, key};

use super::Table;
use crate::error::Invalid;
use crate::hardware::Vendor;
use crate::named_enum::named_enum;

named_enum! {
    /// A release of torch whose template sources are known by their digests.
    TorchVersion("torch version") {
        V2_11 = "2.11.0",
    }
}

/// What a table does not say, but Inductor's form does.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InductorOptions {
    /// Keys without the device's name apply to every device.
    pub device_agnostic: bool,
    /// Makes entries void for any other torch than this one.
    pub torch: Option<TorchVersion>,
    /// The scalars of `addmm` and `baddbmm`.
    pub scalars: Scalars,
}

/// From lookup key to configs, the preferred one first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InductorTable(IndexMap<String, Vec<InductorEntry>>);

impl Deref for InductorTable {
    type Target = IndexMap<String, Vec<InductorEntry>>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Serialize for InductorTable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(&self.0)
    }
}

impl Table {
    /// The table in Inductor's form. Every key and entry is as torch 2.11 makes it.
    ///
    /// Problems that differ only in what a key does not say, such as the layout of
    /// the output, share one key; the first of them counts.
    pub fn to_inductor(&self, options: &InductorOptions) -> Result<InductorTable, Invalid> {
        if self.hardware.vendor == Vendor::Cpu {
            return Err(Invalid::new(
                "hardware",
                &self.hardware.slug,
                "a GPU, as Inductor's lookup table is for",
            ));
        }
        let device = if options.device_agnostic { None } else { Some(device_name(&self.hardware)?) };
        let mut table = IndexMap::with_capacity(self.len());
        for (problem, configs) in self.iter() {
            let key = key(problem, device.as_ref(), &options.scalars);
            if table.contains_key(&key) {
                continue;
            }
            let entries = configs
                .iter()
                .map(|listed| InductorEntry::new(&listed.config, problem, &self.hardware, options.torch))
                .collect::<Result<_, _>>()?;
            table.insert(key, entries);
        }
        Ok(InductorTable(table))
    }
}
