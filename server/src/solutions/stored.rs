use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::sync::Arc;

use diode_api::Standing;
use diode_core::ids::{AccountId, Digest, ProblemId};
use diode_core::{Config, ConfigDictionary, ConfigIndex, Method, Problem, Solution};
use diode_formats::stored::{Columns, decode_columns, decode_configs, encode_columns, encode_configs};

use super::decoded::DecodedSolution;

/// A value in the database that this program never writes.
#[derive(Debug, thiserror::Error)]
#[error("the database holds a damaged {what}: {reason}")]
pub struct Damaged {
    what: &'static str,
    reason: String,
}

impl Damaged {
    pub(crate) fn new(what: &'static str, reason: impl Display) -> Self {
        Self { what, reason: reason.to_string() }
    }
}

/// A list of configs in its stored form: first the configs with times, then the configs that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredConfigList {
    pub digest: Digest,
    pub bytes: Vec<u8>,
}

/// A solution in its stored form.
#[derive(Debug, Clone)]
pub struct StoredSolution {
    /// The number of the solution's row.
    pub number: i64,
    /// `None` stands for all that was sent without an account.
    pub contributor: Option<AccountId>,
    pub standing: Standing,
    pub problem: ProblemId,
    pub method: Method,
    pub config_list: Digest,
    pub columns: Vec<u8>,
}

/// Some solutions with everything that they refer to.
#[derive(Debug, Default)]
pub struct StoredSolutions {
    /// The solutions, in the order in which they arrived.
    pub solutions: Vec<StoredSolution>,
    pub problems: BTreeMap<ProblemId, Problem>,
    pub config_lists: BTreeMap<Digest, Vec<u8>>,
    /// The rows that could not be read.
    pub damaged: Vec<Damaged>,
}

/// The solutions that can be decoded, each with its row, and what is wrong with the others.
#[derive(Default)]
pub struct Decoded<'a> {
    pub solutions: Vec<(&'a StoredSolution, DecodedSolution)>,
    pub damaged: Vec<Damaged>,
}

impl StoredSolutions {
    /// Decodes the solutions, in order. This takes long, so it must not run on an async thread.
    pub fn decode(&self) -> Decoded<'_> {
        self.decode_with(&mut ConfigLists::default())
    }

    /// Decodes the solutions with config lists from earlier calls, which are not decoded again.
    pub(crate) fn decode_with(&self, lists: &mut ConfigLists) -> Decoded<'_> {
        let mut decoded = Decoded { damaged: lists.add(&self.config_lists), ..Decoded::default() };
        for solution in &self.solutions {
            match lists.decode(solution) {
                Ok(columns) => decoded.solutions.push((solution, columns)),
                Err(damaged) => decoded.damaged.push(damaged),
            }
        }
        decoded
    }
}

/// Config lists. Each is decoded once, however many solutions share it.
#[derive(Default)]
pub struct ConfigLists(BTreeMap<Digest, Arc<[Config]>>);

impl ConfigLists {
    /// Decodes lists that are new. Returns what is wrong with the lists that cannot be decoded.
    fn add(&mut self, stored: &BTreeMap<Digest, Vec<u8>>) -> Vec<Damaged> {
        let mut damaged = Vec::new();
        for (digest, bytes) in stored {
            if self.0.contains_key(digest) {
                continue;
            }
            match decode_configs(bytes) {
                Ok(configs) => drop(self.0.insert(digest.clone(), configs.into())),
                Err(error) => damaged.push(Damaged::new("config list", format_args!("{digest}: {error}"))),
            }
        }
        damaged
    }

    /// How many configs all lists have together.
    pub(crate) fn configs(&self) -> usize {
        self.0.values().map(|configs| configs.len()).sum()
    }

    fn decode(&self, solution: &StoredSolution) -> Result<DecodedSolution, Damaged> {
        let damaged =
            |reason: String| Damaged::new("solution", format_args!("problem {}: {reason}", solution.problem));
        let configs = self.0.get(&solution.config_list);
        let configs =
            configs.ok_or_else(|| damaged(format!("no readable config list {}", solution.config_list)))?;
        let columns = decode_columns(&solution.columns).map_err(|error| damaged(error.to_string()))?;
        DecodedSolution::new(Arc::clone(configs), columns).map_err(damaged)
    }
}

/// Encodes the solutions of a valid dataset. Most solutions have the same configs, so each list is encoded once.
pub struct Encoder<'d> {
    dictionary: &'d ConfigDictionary,
    lists: HashMap<Vec<ConfigIndex>, StoredConfigList>,
}

impl<'d> Encoder<'d> {
    pub fn new(dictionary: &'d ConfigDictionary) -> Self {
        Self { dictionary, lists: HashMap::new() }
    }

    /// The config list and the columns of a solution.
    pub fn encode(&mut self, solution: &Solution) -> (&StoredConfigList, Vec<u8>) {
        let failed = solution.failures.iter().map(|failure| failure.config);
        let list: Vec<ConfigIndex> = solution.configs.iter().copied().chain(failed).collect();
        let first_failed = solution.configs.len();
        let columns = Columns {
            times: solution.times.clone(),
            minimum_ns: solution.minimum_ns.clone(),
            spread_ns: solution.spread_ns.clone(),
            repeats: solution.repeats.clone(),
            failures: (first_failed as u32..).zip(&solution.failures).map(|(at, f)| (at, f.reason)).collect(),
        };
        let encode_list = |list: &Vec<ConfigIndex>| {
            let configs: Vec<Config> = list.iter().map(|&index| *self.dictionary.get(index)).collect();
            let bytes = encode_configs(&configs);
            StoredConfigList { digest: Digest::of(&bytes), bytes }
        };
        (&*self.lists.entry(list).or_insert_with_key(encode_list), encode_columns(&columns))
    }
}
