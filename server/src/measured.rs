//! Timings of one problem in the form they are stored in, packed and unpacked.

use std::sync::Arc;

use diode_core::ids::Digest;
use diode_core::{Config, ConfigDictionary, Failure, FailureReason, Nanos, Solution};
use diode_formats::FormatError;
use diode_formats::stored::{self, Columns};

use crate::store::PackedConfigs;

/// A stored solution, unpacked. Row `i` of the columns speaks of config `i`;
/// the configs after the last row are those that failed.
#[derive(Debug, Clone)]
pub struct Measured {
    configs: Arc<[Config]>,
    columns: Columns,
}

impl Measured {
    /// The config list and the columns of a solution that has passed validation.
    pub fn pack(solution: &Solution, dictionary: &ConfigDictionary) -> (PackedConfigs, Vec<u8>) {
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
        let bytes = stored::encode_configs(&configs);
        (PackedConfigs { digest: Digest::of(&bytes), bytes }, stored::encode_columns(&columns))
    }

    /// Puts a config list and the columns that speak of it together again.
    pub fn unpack(configs: Arc<[Config]>, columns: &[u8]) -> Result<Self, String> {
        let columns = stored::decode_columns(columns).map_err(|error: FormatError| error.to_string())?;
        let rows = columns.times.len() + columns.failures.len();
        if rows != configs.len() {
            return Err(format!("{rows} rows and failures for a list of {} configs", configs.len()));
        }
        let positions = columns.failures.iter().map(|(at, _)| *at as usize);
        if let Some(stray) = positions.into_iter().find(|at| *at >= configs.len()) {
            return Err(format!("failure {stray} of a list of {} configs", configs.len()));
        }
        Ok(Self { configs, columns })
    }

    /// The configs that have a time.
    pub fn timed(&self) -> impl ExactSizeIterator<Item = (Config, Nanos)> {
        (0..self.columns.times.len()).map(|row| (self.configs[row], self.columns.times.nanos(row)))
    }

    /// The configs that have none.
    pub fn failed(&self) -> impl ExactSizeIterator<Item = (Config, FailureReason)> {
        self.columns.failures.iter().map(|(at, reason)| (self.configs[*at as usize], *reason))
    }

    /// The solution as it came, its configs interned in another dictionary.
    pub fn into_solution(
        self,
        problem: diode_core::Problem,
        method: diode_core::Method,
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
