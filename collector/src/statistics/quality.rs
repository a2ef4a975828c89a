//! How noisy measurements are, and how Triton compares with the library.

use diode_core::{Config, Dataset, Solution};

/// Configs this close to the best of their problem are those that a choice is between.
const CHOICE_FACTOR: f64 = 1.05;
/// Fewer launches have no quartiles to speak of.
const MIN_REPEATS: u32 = 5;

/// The interquartile ranges of the times within 5 % of the best, each over its time.
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

/// The library's time over the best Triton time, for a problem that has both.
pub(crate) fn library_ratio(dataset: &Dataset, solution: &Solution) -> Option<f64> {
    let best = |library: bool| {
        let rows = solution.configs.iter().zip(solution.times.iter_nanos());
        rows.filter(|(index, _)| matches!(dataset.configs.get(**index), Config::Library) == library)
            .map(|(_, time)| time.0)
            .min_by(f64::total_cmp)
    };
    Some(best(true)? / best(false)?)
}
