//! The noise of measurements, and Triton compared with the library.

use diode_core::{Config, Dataset, Solution};

/// A config within this factor of its problem's best counts as near-best.
const CHOICE_FACTOR: f64 = 1.05;
/// The fewest launches whose quartiles mean something.
const MIN_REPEATS: u32 = 5;

/// The interquartile range / the time, for each time within 5 % of the best.
pub(crate) fn spreads_within_5_percent(solution: &Solution) -> Vec<f64> {
    let (Some(spread), Some(best)) = (&solution.spread_ns, solution.times.fastest()) else {
        return Vec::new();
    };
    let limit = solution.times.nanos(best).0 * CHOICE_FACTOR;
    let repeated = |row: usize| solution.repeats.as_ref().is_none_or(|repeats| repeats[row] >= MIN_REPEATS);
    let rows = (0..solution.times.len()).map(|row| (row, solution.times.nanos(row).0));
    rows.filter(|&(row, time)| time <= limit && repeated(row))
        .map(|(row, time)| spread[row] as f64 / time)
        .collect()
}

/// The library's time / the best Triton time. If this Triton config rounds to TF32, so does the library. `None` if
/// the problem lacks either time.
pub(crate) fn library_ratio(dataset: &Dataset, solution: &Solution) -> Option<f64> {
    let rows = || {
        let configs = solution.configs.iter().map(|index| dataset.configs.get(*index));
        configs.zip(solution.times.iter_nanos().map(|time| time.0))
    };
    let triton = rows().filter(|(config, _)| !config.is_library());
    let (config, best) = triton.min_by(|a, b| a.1.total_cmp(&b.1))?;
    let library = Config::library(config.rounds(&solution.problem));
    let (_, time) = rows().find(|(config, _)| **config == library)?;
    Some(time / best)
}
