//! The entries of a table's file. An error names the entry's number and problem.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::config_fields::TableConfigFields;
use crate::{ProblemFields, numbered};

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct EntryFields {
    pub(super) problem: ProblemFields,
    pub(super) configs: Vec<TableConfigFields>,
}

/// How an error message names the problem of an entry.
pub(super) fn key(problem: &ProblemFields) -> String {
    let ProblemFields { op, b, m, n, k, .. } = problem;
    format!(" ({op} B={b} M={m} N={n} K={k})")
}

/// Reads the entries of a file.
pub(super) fn entries<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<EntryFields>, D::Error> {
    struct Entries;

    impl<'de> Visitor<'de> for Entries {
        type Value = Vec<EntryFields>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of entries")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut entries = Vec::new();
            loop {
                // The problem is noted as soon as it is read, so that errors in the configs can
                // name it.
                let key = RefCell::new(String::new());
                match list.next_element_seed(EntrySeed(&key)) {
                    Ok(Some(entry)) => entries.push(entry),
                    Ok(None) => return Ok(entries),
                    Err(error) => {
                        let (number, key) = (entries.len() + 1, key.borrow());
                        return Err(A::Error::custom(format_args!("entry {number}{key}: {error}")));
                    }
                }
            }
        }
    }

    deserializer.deserialize_seq(Entries)
}

/// Reads one entry, and notes its problem as soon as the problem is read.
struct EntrySeed<'a>(&'a RefCell<String>);

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum EntryField {
    Problem,
    Configs,
}

struct Configs(Vec<TableConfigFields>);

impl<'de> Deserialize<'de> for Configs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        numbered(deserializer, "config").map(Self)
    }
}

impl<'de> DeserializeSeed<'de> for EntrySeed<'_> {
    type Value = EntryFields;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<EntryFields, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for EntrySeed<'_> {
    type Value = EntryFields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map with `problem` and `configs`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<EntryFields, A::Error> {
        let (mut problem, mut configs) = (None, None);
        while let Some(field) = map.next_key()? {
            let again = match field {
                EntryField::Problem => {
                    let read: ProblemFields = map
                        .next_value()
                        .map_err(|error| A::Error::custom(format_args!("problem: {error}")))?;
                    *self.0.borrow_mut() = key(&read);
                    problem.replace(read).map(|_| "problem")
                }
                EntryField::Configs => configs.replace(map.next_value::<Configs>()?.0).map(|_| "configs"),
            };
            if let Some(field) = again {
                return Err(A::Error::duplicate_field(field));
            }
        }
        Ok(EntryFields {
            problem: problem.ok_or_else(|| A::Error::missing_field("problem"))?,
            configs: configs.ok_or_else(|| A::Error::missing_field("configs"))?,
        })
    }
}
