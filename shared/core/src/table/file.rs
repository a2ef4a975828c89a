//! A table as JSON, with one object per problem. People may read and edit it.

use serde::{Deserialize, Serialize};

use super::Table;
use super::config_fields::TableConfigFields;
use super::entry::{EntryFields, entries, key};
use crate::error::Invalid;
use crate::hardware::Hardware;
use crate::{Method, Problem};

/// The format's name and version. A change that older programs would misread needs a new version.
const FORMAT: &str = "diode-table/1";

/// A table before validation. Unknown fields are refused: otherwise a misspelt name would have no
/// effect, and nobody would notice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableFile {
    format: String,
    hardware: Hardware,
    method: Method,
    #[serde(deserialize_with = "entries")]
    entries: Vec<EntryFields>,
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
            table.insert_fields(entry).map_err(|error| error.within(place))?;
        }
        Ok(table)
    }
}

impl Table {
    fn insert_fields(&mut self, entry: EntryFields) -> Result<(), Invalid> {
        let problem = Problem::new(entry.problem)?;
        let mut configs = Vec::with_capacity(entry.configs.len());
        for (number, fields) in (1..).zip(entry.configs) {
            let config = fields.config(problem.k);
            configs.push(config.map_err(|error| error.within(format_args!("config {number}")))?);
        }
        self.insert(problem, configs)
    }
}
