//! Solutions in their stored form, and decoded.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::sync::Arc;

use diode_api::Standing;
use diode_core::hardware::Hardware;
use diode_core::ids::{AccountId, Digest, HardwareSlug, ProblemId};
use diode_core::{
    Config, ConfigDictionary, ConfigIndex, Dataset, Failure, FailureReason, Method, Nanos, Problem,
    Provenance, Solution,
};
use diode_formats::stored::{Columns, decode_columns, decode_configs, encode_columns, encode_configs};

use crate::boards::entry_store::View;
use crate::store::fields::{optional, parse, readable_row, unsigned};
use crate::uploads::standing_store::read_standing;

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

/// A solution in its stored form.
#[derive(Debug, Clone)]
pub struct StoredSolution {
    /// The number of the solution's row; 0 before it has one.
    pub number: i64,
    pub digest: Digest,
    pub hardware: HardwareSlug,
    pub problem: ProblemId,
    pub method: Method,
    /// `None` stands for all that was sent without an account. A new solution is its upload's.
    pub contributor: Option<AccountId>,
    /// Whether the operator vouches for an upload that sent it and is not quarantined.
    pub vouched: bool,
    /// When the contributor's account was made, in milliseconds since 1970.
    pub since: Option<i64>,
    pub standing: Standing,
    pub config_list: Digest,
    /// Packed.
    pub columns: Vec<u8>,
    /// The columns as they were before packing, while the transaction that stores them needs them.
    pub unpacked: Option<Arc<Columns>>,
    pub timings: u64,
    pub failures: u64,
    /// `None` if every config failed.
    pub best_us: Option<f64>,
}

impl StoredSolution {
    /// The view that the solution belongs to.
    pub(crate) fn view(&self) -> View {
        View { hardware: self.hardware.clone(), problem: self.problem.clone(), method: self.method }
    }
}

readable_row!(StoredSolution {
    number,
    digest,
    hardware,
    problem,
    method,
    contributor,
    vouched: i64,
    since: Option<String>,
    standing,
    config_list,
    columns,
    timings,
    failures,
    best_us,
} => StoredSolution {
    number,
    digest: parse("solution digest", digest)?,
    hardware: parse("hardware slug", hardware)?,
    problem: parse("problem id", problem)?,
    method: parse("method", method)?,
    contributor: optional("account id", contributor)?,
    vouched: vouched != 0,
    since: read_since(since)?,
    standing: read_standing(standing)?,
    config_list: parse("config list digest", config_list)?,
    columns,
    unpacked: None,
    timings: unsigned("timing count", timings)?,
    failures: unsigned("failure count", failures)?,
    best_us,
});

fn read_since(text: Option<String>) -> Result<Option<i64>, Damaged> {
    let parse = |text: String| {
        let at: Result<jiff::Timestamp, _> = text.parse();
        at.map(jiff::Timestamp::as_millisecond).map_err(|error| Damaged::new("time of an account", error))
    };
    text.map(parse).transpose()
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

/// The solutions that can be decoded, and what is wrong with the others.
#[derive(Default)]
pub struct DecodedSolutions {
    pub solutions: Vec<DecodedSolution>,
    pub damaged: Vec<Damaged>,
}

impl StoredSolutions {
    /// Decodes the solutions, in order. This takes long, so it must not run on an async thread.
    pub fn decode(&self) -> DecodedSolutions {
        self.decode_with(&mut ConfigLists::default())
    }

    /// Decodes the solutions with config lists from earlier calls, which are not decoded again.
    pub(crate) fn decode_with(&self, lists: &mut ConfigLists) -> DecodedSolutions {
        let mut decoded =
            DecodedSolutions { damaged: lists.add(&self.config_lists), ..DecodedSolutions::default() };
        for solution in &self.solutions {
            match lists.decode(solution) {
                Ok(solution) => decoded.solutions.push(solution),
                Err(damaged) => decoded.damaged.push(damaged),
            }
        }
        decoded
    }
}

/// The columns of new solutions, by their digests.
pub(crate) type Unpacked = HashMap<Digest, Arc<Columns>>;

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
        let columns = match &solution.unpacked {
            Some(columns) => Arc::clone(columns),
            None => decode_columns(&solution.columns).map_err(|error| damaged(error.to_string()))?.into(),
        };
        DecodedSolution::new(solution, Arc::clone(configs), columns).map_err(damaged)
    }
}

/// Encodes the solutions of a valid dataset. Most solutions have the same configs, so each list is encoded once.
pub struct Encoder<'d> {
    dictionary: &'d ConfigDictionary,
    /// The digest and the stored form of each list: first the configs with times, then the configs that failed.
    lists: HashMap<Vec<ConfigIndex>, (Digest, Vec<u8>)>,
}

impl<'d> Encoder<'d> {
    pub fn new(dictionary: &'d ConfigDictionary) -> Self {
        Self { dictionary, lists: HashMap::new() }
    }

    /// The config list of a solution, with its digest, and the columns, also packed.
    pub fn encode(&mut self, solution: &Solution) -> (&(Digest, Vec<u8>), Arc<Columns>, Vec<u8>) {
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
            (Digest::of(&bytes), bytes)
        };
        let packed = encode_columns(&columns);
        (&*self.lists.entry(list).or_insert_with_key(encode_list), columns.into(), packed)
    }
}

/// A stored solution, decoded. Row `i` of the columns is the timing of config `i`. The configs after the last row are
/// the ones that failed.
#[derive(Debug, Clone)]
pub struct DecodedSolution {
    /// The number of the solution's row.
    pub number: i64,
    pub problem: ProblemId,
    pub method: Method,
    /// `None` stands for all that was sent without an account.
    pub contributor: Option<AccountId>,
    /// Whether the operator vouches for it.
    pub vouched: bool,
    /// When the contributor's account was made, in milliseconds since 1970.
    pub since: Option<i64>,
    /// `false` if no upload that sent the solution counts.
    pub counts: bool,
    configs: Arc<[Config]>,
    columns: Arc<Columns>,
}

impl DecodedSolution {
    /// Joins a config list with the columns that were written for it. Refuses columns of another list.
    fn new(stored: &StoredSolution, configs: Arc<[Config]>, columns: Arc<Columns>) -> Result<Self, String> {
        let rows = columns.times.len() + columns.failures.len();
        if rows != configs.len() {
            return Err(format!("{rows} rows and failures for a list of {} configs", configs.len()));
        }
        let mut positions = columns.failures.iter().map(|(at, _)| *at as usize);
        if let Some(stray) = positions.find(|at| *at >= configs.len()) {
            return Err(format!("failure {stray} of a list of {} configs", configs.len()));
        }
        Ok(Self {
            number: stored.number,
            problem: stored.problem.clone(),
            method: stored.method,
            contributor: stored.contributor.clone(),
            vouched: stored.vouched,
            since: stored.since,
            counts: stored.standing == Standing::Counts,
            configs,
            columns,
        })
    }

    /// The config list. Solutions with the same list share its allocation.
    pub(crate) fn list(&self) -> &Arc<[Config]> {
        &self.configs
    }

    /// The configs that have a time.
    pub fn timed(&self) -> impl ExactSizeIterator<Item = (Config, Nanos)> {
        (0..self.columns.times.len()).map(|row| (self.configs[row], self.columns.times.nanos(row)))
    }

    /// How far the repeats of a config lie apart, as a share of its time; `None` if that is not known.
    pub(crate) fn spread(&self, config: &Config) -> Option<f64> {
        let spread = self.columns.spread_ns.as_ref()?;
        let rows = self.columns.times.len();
        let row = self.configs[..rows].iter().position(|own| own == config)?;
        Some(*spread.get(row)? as f64 / self.columns.times.nanos(row).0)
    }

    /// Whether repeats or spreads are known, so that [`Self::repeats`] gives more than the configs.
    pub(crate) fn knows_repeats(&self) -> bool {
        self.columns.spread_ns.is_some() || self.columns.repeats.is_some()
    }

    /// For every config with a time: how far its repeats lie apart, as a share of the time, and how many there are.
    pub(crate) fn repeats(&self) -> impl Iterator<Item = (Config, Option<f64>, Option<u32>)> {
        let Columns { times, spread_ns, repeats, .. } = &*self.columns;
        self.configs.iter().zip(0..times.len()).map(move |(config, row)| {
            let spread = spread_ns.as_ref().and_then(|spread| spread.get(row));
            let spread = spread.map(|spread| *spread as f64 / times.nanos(row).0);
            (*config, spread, repeats.as_ref().and_then(|repeats| repeats.get(row)).copied())
        })
    }

    /// The configs that failed.
    pub fn failed(&self) -> impl ExactSizeIterator<Item = (Config, FailureReason)> {
        self.columns.failures.iter().map(|(at, reason)| (self.configs[*at as usize], *reason))
    }

    /// The solution as it was sent, with its configs in `dictionary`.
    pub fn into_solution(self, problem: Problem, dictionary: &mut ConfigDictionary) -> Solution {
        let rows = self.columns.times.len();
        let configs = self.configs[..rows].iter().map(|config| dictionary.intern(*config)).collect();
        let failures = self
            .failed()
            .map(|(config, reason)| Failure { config: dictionary.intern(config), reason })
            .collect();
        let Columns { times, minimum_ns, spread_ns, repeats, .. } = Arc::unwrap_or_clone(self.columns);
        Solution { problem, method: self.method, configs, times, minimum_ns, spread_ns, repeats, failures }
    }
}

/// Cuts a list into runs whose sizes add up to at most `limit`. An item that is larger forms a run alone.
pub(crate) fn cut<T: Clone>(sizes: &[(T, u64)], limit: u64) -> Vec<RangeInclusive<T>> {
    let mut runs: Vec<RangeInclusive<T>> = Vec::new();
    let mut sum = 0;
    for (item, size) in sizes {
        match runs.pop() {
            Some(run) if sum + size <= limit => {
                sum += size;
                runs.push(run.start().clone()..=item.clone());
            }
            full => {
                sum = *size;
                runs.extend(full);
                runs.push(item.clone()..=item.clone());
            }
        }
    }
    runs
}

/// The dataset, and why some solutions are left out of it.
pub(crate) struct Rebuilt {
    pub(crate) dataset: Dataset,
    pub(crate) left_out: Vec<Damaged>,
}

/// Everything stored for a hardware as one dataset, in the order in which it arrived. A damaged row loses
/// only its own solution. This takes long, so it must not run on an async thread.
pub(crate) fn rebuild(hardware: Hardware, stored: StoredSolutions) -> Rebuilt {
    let mut configs = ConfigDictionary::default();
    let mut solutions = Vec::with_capacity(stored.solutions.len());
    let decoded = stored.decode();
    let mut left_out = decoded.damaged;
    for solution in decoded.solutions {
        match stored.problems.get(&solution.problem) {
            Some(problem) => solutions.push(solution.into_solution(problem.clone(), &mut configs)),
            None => left_out.push(Damaged::new("solution", format_args!("no problem {}", solution.problem))),
        }
    }
    left_out.extend(stored.damaged);
    for damaged in &left_out {
        tracing::error!(hardware = %hardware.slug, "left out: {damaged}");
    }
    let dataset = Dataset { hardware, provenance: Provenance::default(), configs, solutions };
    Rebuilt { dataset, left_out }
}

#[cfg(test)]
mod solutions_stored_cut_tests {
    use super::*;

    #[test]
    fn runs_hold_everything_once_and_no_more_than_the_limit() {
        let sizes = [(1, 4), (3, 6), (4, 1), (7, 30), (8, 5), (9, 5)];
        assert_eq!(cut(&sizes, 10), [1..=3, 4..=4, 7..=7, 8..=9]);
        assert_eq!(cut::<i64>(&[], 10), []);
    }
}
