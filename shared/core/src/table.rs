//! Tables: the best known configs of each problem on one hardware. Looking them up replaces
//! measuring.

mod build;
mod config_fields;
mod entry;
mod file;
mod index;
pub mod inductor;
mod nearest;
mod pairs;

use std::collections::HashSet;
use std::ops::Range;

use serde::{Deserialize, Serialize};

pub use file::TableFile;
pub use nearest::{Candidate, Nearest, Neighbour, distance};

use crate::error::{Field, Invalid};
use crate::hardware::Hardware;
use crate::named_enum::named_enum;
use crate::{Config, Method, Micros, Problem};
use index::Index;

named_enum! {
    /// How a table is written.
    TableFormat("table format") {
        /// JSON with one object per problem, for people to read.
        Diode = "diode",
        /// The form of PyTorch Inductor's lookup table.
        Inductor = "inductor",
    }
}

/// A config of a table, with its time if it is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TableConfig {
    pub config: Config,
    pub time: Option<Micros>,
}

/// The best known configs of problems on one hardware, measured by one method.
///
/// The configs of a problem stand in order of preference. Each of them can compute its problem:
/// `EVEN_K` is only set where K is a multiple of the block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "TableFile", into = "TableFile")]
pub struct Table {
    hardware: Hardware,
    method: Method,
    /// Each problem, and where its configs are in `configs`.
    problems: Vec<(Problem, Range<usize>)>,
    /// All configs. The configs of one problem are neighbours.
    configs: Vec<TableConfig>,
    index: Index,
}

impl Table {
    /// An empty table.
    pub fn new(hardware: Hardware, method: Method) -> Self {
        Self { hardware, method, problems: Vec::new(), configs: Vec::new(), index: Index::default() }
    }

    /// Adds a problem with its configs, the preferred one first.
    pub fn insert(&mut self, problem: Problem, configs: Vec<TableConfig>) -> Result<(), Invalid> {
        if configs.is_empty() {
            return Err(Invalid::new("configs", "none", "at least one; leave out the problem to forget it"));
        }
        let mut seen = HashSet::with_capacity(configs.len());
        for (number, TableConfig { config, time }) in (1..).zip(&configs) {
            let named = |error: Invalid| error.within(format_args!("config {number}"));
            config.validate().map_err(named)?;
            check_even_k(config, &problem).map_err(named)?;
            if let Some(time) = time.filter(|time| !(time.0.is_finite() && time.0 > 0.0)) {
                return Err(named(Invalid::new("time_us", time.0, "a time above 0, or none")));
            }
            if !seen.insert(config) {
                return Err(named(Invalid::new("config", config.label(), "each config once")));
            }
        }
        let range = self.configs.len()..self.configs.len() + configs.len();
        if !self.index.insert(&problem, range.clone())? {
            let place = self.problems.iter().position(|(known, _)| *known == problem);
            return Err(Invalid::new(
                "problem",
                format_args!("a second entry, the other is number {}", place.map_or(0, |place| place + 1)),
                "each problem once",
            ));
        }
        self.configs.extend(configs);
        self.problems.push((problem, range));
        Ok(())
    }

    pub fn hardware(&self) -> &Hardware {
        &self.hardware
    }

    /// The method of the times.
    pub fn method(&self) -> Method {
        self.method
    }

    /// The number of problems.
    pub fn len(&self) -> usize {
        self.problems.len()
    }

    pub fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    /// Every problem with its configs, in the order of the table.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Problem, &[TableConfig])> {
        self.problems.iter().map(|(problem, range)| (problem, &self.configs[range.clone()]))
    }

    /// The configs of exactly this problem, the preferred one first.
    pub fn lookup(&self, problem: &Problem) -> Option<&[TableConfig]> {
        self.index.get(problem).map(|range| &self.configs[range])
    }

    /// Whether a config is listed for a problem.
    pub fn contains(&self, problem: &Problem, config: &Config) -> bool {
        self.lookup(problem).is_some_and(|listed| listed.iter().any(|entry| entry.config == *config))
    }

    /// Which of `configs` the table lists for a problem, in the given order.
    ///
    /// `None` if the table does not have the problem or lists none of these configs. A filter should
    /// then keep all configs.
    pub fn filter(&self, problem: &Problem, configs: &[Config]) -> Option<Vec<Config>> {
        let listed: HashSet<&Config> = self.lookup(problem)?.iter().map(|entry| &entry.config).collect();
        let kept: Vec<Config> = configs.iter().filter(|config| listed.contains(config)).copied().collect();
        (!kept.is_empty()).then_some(kept)
    }

    /// The same table with only the first configs of every problem, at least one each.
    pub fn top(&self, configs: usize) -> Self {
        let mut short = Self::new(self.hardware.clone(), self.method);
        for (problem, all) in self.iter() {
            let kept = all[..configs.clamp(1, all.len())].to_vec();
            let inserted = short.insert(problem.clone(), kept);
            debug_assert!(inserted.is_ok(), "what was in a table can be in another");
        }
        short
    }
}

/// Refuses a config that wrongly says that K is a multiple of its block. Such a kernel would read
/// past the end of rows.
fn check_even_k(config: &Config, problem: &Problem) -> Result<(), Invalid> {
    match config.tile() {
        Some(tile) if tile.even_k && !tile.for_k(problem.k).even_k => Err(Invalid::new(
            Field::EvenK,
            "true",
            format!("false, since K = {} is no multiple of block_k = {}", problem.k, tile.block_k),
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
