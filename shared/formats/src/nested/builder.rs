//! Builds datasets from what the readers of the tree report.

use std::collections::{HashMap, HashSet};

use diode_core::hardware::Hardware;
use diode_core::{
    Config, ConfigDictionary, ConfigIndex, Dataset, Failure, FailureReason, Method, Op, Problem, Provenance,
    Solution, TimeColumn,
};

use crate::error::Place;
use crate::limits::{
    MAX_CONFIGS, MAX_CONFIGS_PER_FILE, MAX_DATASETS, MAX_PROBLEMS_PER_FILE, MAX_TIMINGS_PER_PROBLEM,
    too_many, too_many_timings,
};
use crate::nested::{LookupTable, shape};

/// Collects a file's content in reading order, and keeps the current place for error messages.
#[derive(Default)]
pub(super) struct Builder {
    place: Place,
    datasets: Vec<Dataset>,
    /// The ops of the current hardware and the problem keys of the current op. A repeated key is
    /// refused, because programs would differ in which of its values they use.
    ops: Vec<Op>,
    keys: HashSet<Box<str>>,
    op: Option<Op>,
    problem: Option<Problem>,
    problems: usize,
    /// Counts over the whole file.
    all_problems: usize,
    all_configs: usize,
    configs: Vec<ConfigIndex>,
    millis: Vec<f64>,
    failures: Vec<Failure>,
    /// The entries of a lookup table: the number of the hardware, the problem and its configs.
    choices: Vec<(usize, Problem, Vec<ConfigIndex>)>,
    timings: usize,
    max_timings: usize,
}

impl Builder {
    pub(super) fn new(max_timings: usize) -> Self {
        Self { max_timings, ..Self::default() }
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    pub(super) fn finish(self) -> Vec<Dataset> {
        self.datasets
    }

    /// The op that is being read.
    pub(super) fn op(&self) -> Result<Op, String> {
        self.op.ok_or_else(|| "a config outside of any operation".to_owned())
    }

    pub(super) fn enter_hardware(&mut self, name: &str) -> Result<(), String> {
        if self.datasets.len() == MAX_DATASETS {
            return Err(format!("more than {MAX_DATASETS} kinds of hardware; split the file"));
        }
        if self.datasets.iter().any(|dataset| dataset.hardware.name == name) {
            return Err(format!("duplicate key {name:?}"));
        }
        let hardware = Hardware::from_name(name).map_err(|invalid| invalid.to_string())?;
        self.place.hardware = Some(name.to_owned());
        self.ops.clear();
        self.datasets.push(Dataset {
            hardware,
            provenance: Provenance::default(),
            configs: ConfigDictionary::default(),
            solutions: Vec::new(),
        });
        Ok(())
    }

    pub(super) fn leave_hardware(&mut self) -> Result<(), String> {
        self.place = Place::default();
        Ok(())
    }

    pub(super) fn enter_op(&mut self, name: &str) -> Result<(), String> {
        let op: Op = name.parse().map_err(|invalid: diode_core::Invalid| invalid.to_string())?;
        if self.ops.contains(&op) {
            return Err(format!("duplicate key {name:?}"));
        }
        self.ops.push(op);
        self.keys.clear();
        self.op = Some(op);
        self.place.op = Some(op);
        self.problems = 0;
        Ok(())
    }

    pub(super) fn leave_op(&mut self) -> Result<(), String> {
        self.op = None;
        self.place.op = None;
        Ok(())
    }

    pub(super) fn enter_problem(&mut self, key: &str) -> Result<(), String> {
        self.problems += 1;
        self.place.problem = Some(self.problems);
        self.all_problems += 1;
        if self.all_problems > MAX_PROBLEMS_PER_FILE {
            return Err(too_many("problems", MAX_PROBLEMS_PER_FILE));
        }
        self.problem = Some(shape::parse(self.op()?, key)?);
        if !self.keys.insert(key.into()) {
            return Err(format!("duplicate key {key:.200?}"));
        }
        Ok(())
    }

    /// The index of a config in the current hardware's dataset. A new config is added.
    pub(super) fn intern(&mut self, config: Config) -> Result<ConfigIndex, String> {
        let dataset = self.datasets.last_mut().ok_or("a config outside of any hardware")?;
        let known = dataset.configs.len();
        let index = dataset.configs.intern(config);
        if dataset.configs.len() > MAX_CONFIGS {
            return Err(format!("more than {MAX_CONFIGS} distinct configs"));
        }
        self.all_configs += dataset.configs.len() - known;
        if self.all_configs > MAX_CONFIGS_PER_FILE {
            return Err(too_many("configs", MAX_CONFIGS_PER_FILE));
        }
        Ok(index)
    }

    pub(super) fn timing(&mut self, config: ConfigIndex, millis: f64) -> Result<(), String> {
        self.count_row()?;
        if millis.is_finite() {
            self.configs.push(config);
            self.millis.push(millis);
        } else {
            self.failures.push(Failure { config, reason: FailureReason::NotFinite });
        }
        Ok(())
    }

    /// Adds a lookup table's config for the current problem.
    pub(super) fn choice(&mut self, config: ConfigIndex) -> Result<(), String> {
        self.count_row()?;
        self.configs.push(config);
        Ok(())
    }

    fn count_row(&mut self) -> Result<(), String> {
        let rows = self.configs.len() + self.failures.len();
        if rows == MAX_TIMINGS_PER_PROBLEM {
            return Err(format!("more than {MAX_TIMINGS_PER_PROBLEM} timings of one problem"));
        }
        self.timings += 1;
        if self.timings > self.max_timings {
            return Err(too_many_timings(self.max_timings));
        }
        Ok(())
    }

    pub(super) fn leave_problem(&mut self) -> Result<(), String> {
        let problem = self.problem.take().ok_or("timings outside of any problem")?;
        let dataset = self.datasets.last_mut().ok_or("a problem outside of any hardware")?;
        let times = TimeColumn::from_millis(std::mem::take(&mut self.millis))
            .map_err(|invalid| invalid.to_string())?;
        dataset.solutions.push(Solution {
            problem,
            method: Method::Unspecified,
            configs: std::mem::take(&mut self.configs),
            times,
            minimum_ns: None,
            spread_ns: None,
            repeats: None,
            failures: std::mem::take(&mut self.failures),
        });
        self.place.problem = None;
        Ok(())
    }

    pub(super) fn leave_choices(&mut self) -> Result<(), String> {
        let problem = self.problem.take().ok_or("configs outside of any problem")?;
        self.choices.push((self.datasets.len() - 1, problem, std::mem::take(&mut self.configs)));
        self.place.problem = None;
        Ok(())
    }

    pub(super) fn finish_tables(self) -> Vec<LookupTable> {
        let mut tables: Vec<LookupTable> = self
            .datasets
            .into_iter()
            .map(|dataset| LookupTable {
                hardware: dataset.hardware,
                configs: dataset.configs,
                problems: Vec::new(),
            })
            .collect();
        for (dataset, problem, configs) in self.choices {
            tables[dataset].problems.push((problem, configs));
        }
        tables
    }
}

/// The most configs that are remembered: several times the largest space. Others are parsed every
/// time.
const MAX_MEMOIZED: usize = 1 << 14;

/// The most bytes of a config that is remembered: three times what real configs take.
const MAX_BYTES: usize = 512;

/// The configs of one op on one hardware, remembered by their bytes.
///
/// A dataset repeats the same few thousand configs for every problem, mostly in the same order. So the memo keeps which
/// config came after each one the last time, and compares the next bytes with that config first. Other bytes are looked
/// up among all configs, and only new bytes are parsed. Equal bytes mean equal configs; different bytes may mean the same
/// config, too.
pub(super) struct Memo {
    configs: Vec<Memoized>,
    by_bytes: HashMap<Box<[u8]>, usize>,
    last: usize,
}

/// A config that was read before.
struct Memoized {
    bytes: Box<[u8]>,
    config: ConfigIndex,
    /// The number of the config that followed this one the last time.
    next: usize,
}

/// The number that stands for the beginning of a problem.
const START: usize = 0;

impl Memo {
    pub(super) fn new() -> Self {
        let start = Memoized { bytes: Box::default(), config: ConfigIndex(0), next: START };
        Self { configs: vec![start], by_bytes: HashMap::new(), last: START }
    }

    /// Begins a new problem.
    pub(super) fn restart(&mut self) {
        self.last = START;
    }

    /// The bytes that probably come next, and their config. The bytes are empty if nothing is
    /// expected.
    #[inline]
    pub(super) fn expected(&self) -> (&[u8], ConfigIndex) {
        let memoized = &self.configs[self.configs[self.last].next];
        (&memoized.bytes, memoized.config)
    }

    /// Notes that the expected bytes came.
    #[inline]
    pub(super) fn advance(&mut self) {
        self.last = self.configs[self.last].next;
    }

    /// The config of some bytes, if they came before.
    pub(super) fn find(&mut self, bytes: &[u8]) -> Option<ConfigIndex> {
        let number = *self.by_bytes.get(bytes)?;
        self.follow(number);
        Some(self.configs[number].config)
    }

    /// Remembers the config of some bytes.
    pub(super) fn learn(&mut self, bytes: Box<[u8]>, config: ConfigIndex) {
        if bytes.len() > MAX_BYTES || self.configs.len() > MAX_MEMOIZED {
            return;
        }
        let number = self.configs.len();
        self.by_bytes.insert(bytes.clone(), number);
        self.configs.push(Memoized { bytes, config, next: START });
        self.follow(number);
    }

    fn follow(&mut self, number: usize) {
        self.configs[self.last].next = number;
        self.last = number;
    }
}

#[cfg(test)]
mod memo_tests {
    use super::*;

    #[test]
    fn the_order_of_the_last_time_is_expected_again() {
        let mut memo = Memo::new();
        for (bytes, index) in [(b"a", 7), (b"b", 8)] {
            assert_eq!(memo.find(bytes), None);
            memo.learn(Box::new(*bytes), ConfigIndex(index));
        }
        memo.restart();
        assert_eq!(memo.expected(), (&b"a"[..], ConfigIndex(7)));
        memo.advance();
        assert_eq!(memo.expected(), (&b"b"[..], ConfigIndex(8)));
        memo.restart();
        assert_eq!(memo.find(b"b"), Some(ConfigIndex(8)));
        memo.restart();
        assert_eq!(memo.expected().0, b"b");
        memo.advance();
        assert_eq!(memo.expected().0, b"", "nothing ever followed it");
    }

    #[test]
    fn memory_is_bounded() {
        let mut memo = Memo::new();
        memo.learn(vec![0; MAX_BYTES + 1].into(), ConfigIndex(0));
        for number in 0..2 * MAX_MEMOIZED as u32 {
            memo.learn(number.to_le_bytes().into(), ConfigIndex(number));
        }
        assert_eq!(memo.by_bytes.len(), MAX_MEMOIZED);
    }
}
