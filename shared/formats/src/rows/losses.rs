//! What rows cannot hold.

use std::collections::BTreeMap;

use diode_core::Dataset;
use diode_core::hardware::Hardware;

/// A problem without timings and failures has no row.
const EMPTY: &str = "problems without any timing or failure";

/// The losses, with the number of problems that each concerns.
pub(crate) fn losses(datasets: &[Dataset]) -> BTreeMap<&'static str, usize> {
    let empty = datasets.iter().flat_map(|dataset| &dataset.solutions).filter(|s| is_empty(s)).count();
    if empty == 0 { BTreeMap::new() } else { BTreeMap::from([(EMPTY, empty)]) }
}

/// The same datasets without what rows cannot hold.
pub(crate) fn reduce(datasets: &[Dataset]) -> Vec<Dataset> {
    let mut datasets = datasets.to_vec();
    for dataset in &mut datasets {
        dataset.solutions.retain(|solution| !is_empty(solution));
    }
    datasets
}

fn is_empty(solution: &diode_core::Solution) -> bool {
    solution.configs.is_empty() && solution.failures.is_empty()
}

/// Whether the facts of some hardware differ from those that its name alone gives.
pub(crate) fn has_own_facts(hardware: &Hardware) -> bool {
    hardware.facts.is_some() && Hardware::from_name(&hardware.name).as_ref() != Ok(hardware)
}
