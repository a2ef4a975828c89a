//! Refusing to write what torch-diode's format has no place for.
//!
//! Provenance is let go: it describes the file, not the timings. Everything
//! that changes what a timing means is not.

use std::collections::BTreeMap;

use diode_core::space::config_for;
use diode_core::{Bias, Config, ConfigIndex, Dataset, FailureReason, Method, Solution};

use super::shape;
use crate::FormatError;

/// An error that lists what would be lost and in how many problems, if anything would.
pub(super) fn refuse(datasets: &[Dataset]) -> Result<(), FormatError> {
    let mut problems_by_loss: BTreeMap<&'static str, usize> = BTreeMap::new();
    for dataset in datasets {
        for solution in &dataset.solutions {
            for loss in losses(dataset, solution) {
                *problems_by_loss.entry(loss).or_default() += 1;
            }
        }
    }
    if problems_by_loss.is_empty() {
        return Ok(());
    }
    let losses: Vec<String> = problems_by_loss
        .into_iter()
        .map(|(loss, problems)| {
            format!("{loss} ({problems} {})", if problems == 1 { "problem" } else { "problems" })
        })
        .collect();
    Err(FormatError::WouldLose { losses: losses.join(", ") })
}

fn losses(dataset: &Dataset, solution: &Solution) -> impl Iterator<Item = &'static str> {
    let used =
        || solution.configs.iter().copied().chain(solution.failures.iter().map(|failure| failure.config));
    let config = |index: ConfigIndex| dataset.configs.get(index);
    let op = solution.problem.op;
    [
        ("column-major inputs", !shape::holds_layouts(&solution.problem)),
        ("a vector bias", solution.problem.bias == Bias::Vector),
        ("how times were measured", solution.method != Method::Unspecified),
        ("the spread of repeats", solution.spread_ns.is_some()),
        ("the number of repeats", solution.repeats.is_some()),
        (
            "reasons of failures",
            solution.failures.iter().any(|failure| failure.reason != FailureReason::NotFinite),
        ),
        ("library timings", used().any(|index| matches!(config(index), Config::Library))),
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
