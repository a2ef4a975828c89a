//! Timings of many configs on many problems.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use indexmap::IndexSet;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::error::Invalid;
use crate::hardware::Hardware;
use crate::named_enum::named_enum;
use crate::{Config, Method, Problem, TimeColumn};

/// A config's place in a [`ConfigDictionary`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConfigIndex(pub u32);

/// All configs of a dataset, each stored once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfigDictionary(IndexSet<Config>);

impl ConfigDictionary {
    /// The index of a config, which is added if it is new.
    pub fn intern(&mut self, config: Config) -> ConfigIndex {
        let (index, _) = self.0.insert_full(config);
        ConfigIndex(u32::try_from(index).expect("fewer than 2^32 distinct configs exist"))
    }

    /// The config at an index of this dictionary.
    ///
    /// # Panics
    /// If the index is from another dictionary and beyond this one's end.
    pub fn get(&self, index: ConfigIndex) -> &Config {
        &self.0[index.0 as usize]
    }

    pub fn index_of(&self, config: &Config) -> Option<ConfigIndex> {
        self.0.get_index_of(config).map(|index| ConfigIndex(index as u32))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Config> {
        self.0.iter()
    }
}

impl FromIterator<Config> for ConfigDictionary {
    fn from_iter<I: IntoIterator<Item = Config>>(configs: I) -> Self {
        Self(configs.into_iter().collect())
    }
}

named_enum! {
    /// Why a config has no time on a problem.
    FailureReason("failure reason") {
        /// The kernel needs more shared memory, registers or threads than the device has.
        OutOfResources = "out_of_resources",
        /// The compiler refused the config.
        Compile = "compile",
        /// The launch or the kernel reported an error.
        Launch = "launch",
        /// The kernel ran, but its result was wrong.
        WrongResult = "wrong_result",
        /// The kernel ran too long, and the watchdog ended it.
        Timeout = "timeout",
        /// The inputs did not fit in memory.
        OutOfMemory = "out_of_memory",
        /// The imported file holds `Infinity` or `NaN` in place of a time.
        NotFinite = "not_finite",
    }
}

/// A config that has no time on a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    pub config: ConfigIndex,
    pub reason: FailureReason,
}

/// All timings and failures of one problem on one hardware from one upload, by one method.
///
/// The columns run in parallel: row `i` of each belongs to `configs[i]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Solution {
    pub problem: Problem,
    pub method: Method,
    pub configs: Vec<ConfigIndex>,
    pub times: TimeColumn,
    /// The shortest of the repeats, where known.
    pub minimum_ns: Option<Vec<u64>>,
    /// The interquartile range of the repeats, where known.
    pub spread_ns: Option<Vec<u64>>,
    /// How many repeats each time summarises, where known.
    pub repeats: Option<Vec<u32>>,
    pub failures: Vec<Failure>,
}

impl Solution {
    /// Checks that the columns agree with each other and with the dictionary.
    pub fn validate(&self, configs: &ConfigDictionary) -> Result<(), Invalid> {
        let rows = self.configs.len();
        let columns = [
            ("time column", Some(self.times.len())),
            ("minimum column", self.minimum_ns.as_ref().map(Vec::len)),
            ("spread column", self.spread_ns.as_ref().map(Vec::len)),
            ("repeats column", self.repeats.as_ref().map(Vec::len)),
        ];
        for (name, len) in columns {
            if let Some(len) = len.filter(|&len| len != rows) {
                return Err(Invalid::new(
                    name,
                    format_args!("{len} rows"),
                    format!("{rows}, one per config"),
                ));
            }
        }
        for (row, &minimum) in self.minimum_ns.iter().flatten().enumerate() {
            let time = self.times.nanos(row).0;
            if minimum == 0 || minimum as f64 > time.ceil() {
                return Err(Invalid::new(
                    "minimum",
                    format_args!("{minimum} ns"),
                    format!("more than 0 and at most the time, {time} ns"),
                ));
            }
        }
        let used = self.configs.iter().chain(self.failures.iter().map(|f| &f.config));
        for index in used {
            if index.0 as usize >= configs.len() {
                return Err(Invalid::new(
                    "config index",
                    index.0,
                    format!("less than {}, the size of the config dictionary", configs.len()),
                ));
            }
        }
        Ok(())
    }
}

impl Solution {
    /// The same solution with only these of its timings.
    pub fn select(&self, rows: &[usize]) -> Self {
        fn of<T: Copy>(column: Option<&Vec<T>>, rows: &[usize]) -> Option<Vec<T>> {
            column.map(|column| rows.iter().map(|&row| column[row]).collect())
        }
        Self {
            problem: self.problem.clone(),
            method: self.method,
            configs: rows.iter().map(|&row| self.configs[row]).collect(),
            times: self.times.select(rows),
            minimum_ns: of(self.minimum_ns.as_ref(), rows),
            spread_ns: of(self.spread_ns.as_ref(), rows),
            repeats: of(self.repeats.as_ref(), rows),
            failures: self.failures.clone(),
        }
    }
}

/// Solutions measured on one hardware.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    pub hardware: Hardware,
    pub provenance: Provenance,
    pub configs: ConfigDictionary,
    pub solutions: Vec<Solution>,
}

impl Dataset {
    pub fn timings(&self) -> usize {
        self.solutions.iter().map(|s| s.configs.len()).sum()
    }

    pub fn failures(&self) -> usize {
        self.solutions.iter().map(|s| s.failures.len()).sum()
    }
}

/// Who measured, when and with what.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Provenance {
    /// The program that measured: `diode 0.1.0`. `None` for imported files that do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// When collection began, as RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collected_at: Option<String>,
    /// Facts of the node: driver, power cap, toolchain, whatever it knew.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node: BTreeMap<String, String>,
}

/// Reads a list. The error of an entry begins with what the entry is and its number: `problem 3: …`.
///
/// ```
/// # fn main() {
/// struct Sizes(Vec<u64>);
/// impl<'de> serde::Deserialize<'de> for Sizes {
///     fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
///         diode_core::numbered(deserializer, "size").map(Self)
///     }
/// }
/// let error = serde_json::from_str::<Sizes>("[8, -8]").err().unwrap();
/// assert_eq!(error.to_string(), "size 2: invalid value: integer `-8`, expected u64 at line 1 column 6");
/// # }
/// ```
pub fn numbered<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
    what: &'static str,
) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_seq(Numbered { what, of: PhantomData })
}

struct Numbered<T> {
    what: &'static str,
    of: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Numbered<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of {}s", self.what)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut entries = Vec::new();
        loop {
            match list.next_element() {
                Ok(Some(entry)) => entries.push(entry),
                Ok(None) => return Ok(entries),
                Err(error) => {
                    let number = entries.len() + 1;
                    return Err(A::Error::custom(format_args!("{} {number}: {error}", self.what)));
                }
            }
        }
    }
}
