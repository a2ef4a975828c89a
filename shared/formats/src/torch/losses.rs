//! What torch-diode's format has no place for.
//!
//! Provenance is let go: it describes the file, not the timings. Everything
//! that changes what a timing means is not.

use std::collections::BTreeMap;

use diode_core::space::config_for;
use diode_core::{
    Bias, Config, ConfigDictionary, ConfigIndex, Dataset, Failure, FailureReason, Layout, Method, Problem,
    ProblemFields, Solution, Tile, TimeColumn,
};

use super::shape;

/// How many problems each loss concerns.
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
    [
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

/// The same without what torch-diode's format cannot hold: timings of configs
/// that it does not know are left out, and what remains says less.
pub(crate) fn reduce(datasets: &[Dataset]) -> Vec<Dataset> {
    datasets.iter().map(reduce_dataset).collect()
}

fn reduce_dataset(dataset: &Dataset) -> Dataset {
    let mut reduced = Dataset { configs: ConfigDictionary::default(), ..dataset.clone() };
    for solution in &mut reduced.solutions {
        let op = solution.problem.op;
        let mut keep = |index: ConfigIndex| {
            let config = dataset.configs.get(index);
            let tile = config.tile().filter(|tile| config_for(op, **tile) == *config)?;
            Some(reduced.configs.intern(config_for(op, Tile { rocm: None, ..*tile })))
        };
        let kept: Vec<Option<ConfigIndex>> = solution.configs.iter().map(|&index| keep(index)).collect();
        let failures = solution.failures.iter().filter_map(|failure| {
            keep(failure.config).map(|config| Failure { config, reason: FailureReason::NotFinite })
        });
        solution.failures = failures.collect();
        solution.times = kept_times(&solution.times, &kept);
        solution.configs = kept.into_iter().flatten().collect();
        solution.method = Method::Unspecified;
        solution.minimum_ns = None;
        solution.spread_ns = None;
        solution.repeats = None;
        solution.problem = plain(&solution.problem);
    }
    reduced
}

fn kept_times(times: &TimeColumn, kept: &[Option<ConfigIndex>]) -> TimeColumn {
    let rows = kept.iter().enumerate().filter_map(|(row, config)| config.map(|_| row));
    match times {
        TimeColumn::Nanos(nanos) => TimeColumn::Nanos(rows.map(|row| nanos[row]).collect()),
        TimeColumn::Millis(millis) => TimeColumn::Millis(rows.map(|row| millis[row]).collect()),
    }
}

/// The row-major problem with a full bias, which is what the format takes every problem for.
fn plain(problem: &Problem) -> Problem {
    let bias = if problem.op.has_bias() { Bias::Matrix } else { Bias::None };
    let fields =
        ProblemFields { a_layout: Layout::Row, b_layout: Layout::Row, bias, ..problem.clone().into_fields() };
    Problem::new(fields).expect("neither layouts nor the form of a bias make a problem invalid")
}
