//! Turns what was measured on one problem into a dataset.

use diode_core::hardware::Hardware;
use diode_core::{ConfigDictionary, Dataset, Failure, Method, Problem, Provenance, Solution, TimeColumn};

use crate::devices::measured::MeasuredConfigs;

/// The dataset that holds this one problem.
pub(crate) fn dataset_of(
    (hardware, provenance): (Hardware, Provenance),
    problem: Problem,
    method: Method,
    measured: MeasuredConfigs,
) -> anyhow::Result<Dataset> {
    let mut configs = ConfigDictionary::default();
    let rows = &measured.timed;
    let solution = Solution {
        problem,
        method,
        configs: rows.iter().map(|(config, _)| configs.intern(*config)).collect(),
        times: TimeColumn::from_nanos(rows.iter().filter_map(|(_, s)| s.median()).collect())?,
        minimum_ns: Some(rows.iter().filter_map(|(_, samples)| samples.minimum()).collect()),
        spread_ns: Some(rows.iter().map(|(_, samples)| samples.spread()).collect()),
        repeats: Some(rows.iter().map(|(_, samples)| samples.count() as u32).collect()),
        failures: measured
            .failed
            .iter()
            .map(|&(config, reason)| Failure { config: configs.intern(config), reason })
            .collect(),
    };
    solution.validate(&configs)?;
    Ok(Dataset { hardware, provenance, configs, solutions: vec![solution] })
}
