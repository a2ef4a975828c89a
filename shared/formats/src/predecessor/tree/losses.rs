//! What torch-diode's format cannot hold.
//!
//! A loss is anything that changes what a timing means. Provenance is no loss, because it describes
//! the file and not the timings.

use std::collections::BTreeMap;

use diode_core::hardware::Hardware;
use diode_core::space::config_for;
use diode_core::{Bias, Config, ConfigIndex, Dataset, FailureReason, Method, Solution};

use crate::predecessor::shape;

/// The losses, with the number of problems that each concerns.
pub(crate) fn losses(datasets: &[Dataset]) -> BTreeMap<&'static str, usize> {
    let mut problems_by_loss: BTreeMap<&'static str, usize> = BTreeMap::new();
    for dataset in datasets {
        for solution in &dataset.solutions {
            for loss in losses_of(dataset, solution) {
                *problems_by_loss.entry(loss).or_default() += 1;
            }
        }
    }
    problems_by_loss
}

fn losses_of(dataset: &Dataset, solution: &Solution) -> impl Iterator<Item = &'static str> {
    let used =
        || solution.configs.iter().copied().chain(solution.failures.iter().map(|failure| failure.config));
    let config = |index: ConfigIndex| dataset.configs.get(index);
    let op = solution.problem.op;
    let named = Hardware::from_name(&dataset.hardware.name);
    [
        (
            "hardware whose name leads to another slug",
            named.is_ok_and(|named| named.slug != dataset.hardware.slug),
        ),
        ("column-major inputs", !shape::holds_layouts(&solution.problem)),
        ("a vector bias", solution.problem.bias == Bias::Vector),
        ("how times were measured", solution.method != Method::Unspecified),
        ("the shortest of repeats", solution.minimum_ns.is_some()),
        ("the spread of repeats", solution.spread_ns.is_some()),
        ("the number of repeats", solution.repeats.is_some()),
        (
            "reasons of failures",
            solution.failures.iter().any(|failure| failure.reason != FailureReason::NotFinite),
        ),
        ("library timings", used().any(|index| config(index).is_library())),
        ("split-K configs", used().any(|index| matches!(config(index), Config::DecomposeK { .. }))),
        (
            "configs of another template than the op's own",
            used().any(|index| {
                config(index).tile().is_some_and(|tile| config_for(op, *tile) != *config(index))
            }),
        ),
        (
            "ROCm's parameters",
            used().any(|index| config(index).tile().is_some_and(|tile| tile.rocm.is_some())),
        ),
    ]
    .into_iter()
    .filter_map(|(loss, applies)| applies.then_some(loss))
}
