use std::sync::Arc;

use diode_core::{Config, ConfigDictionary, Failure, FailureReason, Method, Nanos, Problem, Solution};
use diode_formats::stored::Columns;

/// A stored solution, decoded. Row `i` of the columns is the timing of config `i`. The configs after the last row are
/// the ones that failed.
#[derive(Debug, Clone)]
pub struct DecodedSolution {
    configs: Arc<[Config]>,
    columns: Columns,
}

impl DecodedSolution {
    /// Joins a config list with the columns that were written for it. Refuses columns of another list.
    pub fn new(configs: Arc<[Config]>, columns: Columns) -> Result<Self, String> {
        let rows = columns.times.len() + columns.failures.len();
        if rows != configs.len() {
            return Err(format!("{rows} rows and failures for a list of {} configs", configs.len()));
        }
        let mut positions = columns.failures.iter().map(|(at, _)| *at as usize);
        if let Some(stray) = positions.find(|at| *at >= configs.len()) {
            return Err(format!("failure {stray} of a list of {} configs", configs.len()));
        }
        Ok(Self { configs, columns })
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
        let Columns { times, spread_ns, repeats, .. } = &self.columns;
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
    pub fn into_solution(
        self,
        problem: Problem,
        method: Method,
        dictionary: &mut ConfigDictionary,
    ) -> Solution {
        let rows = self.columns.times.len();
        let configs = self.configs[..rows].iter().map(|config| dictionary.intern(*config)).collect();
        let failures = self
            .failed()
            .map(|(config, reason)| Failure { config: dictionary.intern(config), reason })
            .collect();
        let Columns { times, minimum_ns, spread_ns, repeats, .. } = self.columns;
        Solution { problem, method, configs, times, minimum_ns, spread_ns, repeats, failures }
    }
}
