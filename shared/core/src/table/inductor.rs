//! A table in the form of Inductor's own `lookup_table` setting. With it, Inductor compiles the
//! listed problems without any benchmark, and this project need not be installed.

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
    /// A torch release whose template sources have known digests.
    TorchVersion("torch version") {
        V2_11 = "2.11.0",
    }
}

/// What Inductor's form says and a table does not.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InductorOptions {
    /// Leaves the device's name out of the keys, so that they apply to every device.
    pub device_agnostic: bool,
    /// Makes the entries valid for this torch release only.
    pub torch: Option<TorchVersion>,
    /// The factors of `addmm` and `baddbmm`.
    pub scalars: Scalars,
}

/// From lookup key to configs, with the preferred config first.
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
    /// The table in Inductor's form. Keys and entries are those of torch 2.11.
    ///
    /// Problems share a key if they differ only in what the key does not say, such as the layout of
    /// the output. The first of these problems counts.
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
