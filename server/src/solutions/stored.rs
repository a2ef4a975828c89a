use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;

use diode_core::ids::{Digest, ProblemId};
use diode_core::{Config, ConfigDictionary, Method, Problem, Solution};
use diode_formats::stored::{Columns, decode_columns, decode_configs, encode_columns, encode_configs};

use super::decoded::DecodedSolution;

/// The database holds what this program never writes.
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

/// A list of configs as it is stored: the timed ones, then the failed ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredConfigList {
    pub digest: Digest,
    pub bytes: Vec<u8>,
}

/// A solution as it is stored.
#[derive(Debug, Clone)]
pub struct StoredSolution {
    pub problem: ProblemId,
    pub method: Method,
    pub config_list: Digest,
    pub columns: Vec<u8>,
}

/// Some solutions with everything they refer to.
#[derive(Debug, Clone, Default)]
pub struct StoredSolutions {
    /// In the order in which they arrived.
    pub solutions: Vec<StoredSolution>,
    pub problems: BTreeMap<ProblemId, Problem>,
    pub config_lists: BTreeMap<Digest, Vec<u8>>,
}

impl StoredSolutions {
    /// Decodes every solution, in order. Long work: not for an async thread.
    pub fn decode(&self) -> Result<Vec<DecodedSolution>, Damaged> {
        self.decode_with(&mut ConfigLists::default())
    }

    /// The same; config lists that were decoded before are not decoded again.
    pub(crate) fn decode_with(&self, lists: &mut ConfigLists) -> Result<Vec<DecodedSolution>, Damaged> {
        lists.add(&self.config_lists)?;
        self.solutions.iter().map(|solution| lists.decode(solution)).collect()
    }
}

/// Decoded config lists, each decoded once however many solutions share it.
#[derive(Default)]
pub struct ConfigLists(BTreeMap<Digest, Arc<[Config]>>);

impl ConfigLists {
    fn add(&mut self, stored: &BTreeMap<Digest, Vec<u8>>) -> Result<(), Damaged> {
        for (digest, bytes) in stored {
            if !self.0.contains_key(digest) {
                let configs = decode_configs(bytes)
                    .map_err(|error| Damaged::new("config list", format_args!("{digest}: {error}")))?;
                self.0.insert(digest.clone(), configs.into());
            }
        }
        Ok(())
    }

    fn decode(&self, solution: &StoredSolution) -> Result<DecodedSolution, Damaged> {
        let damaged = |reason| Damaged::new("solution", reason);
        let configs = self.0.get(&solution.config_list);
        let configs = configs.ok_or_else(|| damaged(format!("no config list {}", solution.config_list)))?;
        let columns = decode_columns(&solution.columns).map_err(|error| damaged(error.to_string()))?;
        DecodedSolution::new(Arc::clone(configs), columns).map_err(damaged)
    }
}

/// The config list and the columns of a solution that has passed validation.
pub fn encode(solution: &Solution, dictionary: &ConfigDictionary) -> (StoredConfigList, Vec<u8>) {
    let timed = solution.configs.iter();
    let failed = solution.failures.iter().map(|failure| &failure.config);
    let configs: Vec<Config> = timed.chain(failed).map(|&index| *dictionary.get(index)).collect();
    let first_failed = solution.configs.len();
    let columns = Columns {
        times: solution.times.clone(),
        minimum_ns: solution.minimum_ns.clone(),
        spread_ns: solution.spread_ns.clone(),
        repeats: solution.repeats.clone(),
        failures: (first_failed as u32..).zip(&solution.failures).map(|(at, f)| (at, f.reason)).collect(),
    };
    let bytes = encode_configs(&configs);
    (StoredConfigList { digest: Digest::of(&bytes), bytes }, encode_columns(&columns))
}
