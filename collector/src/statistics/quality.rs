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

/// The library's time / the best Triton time. `None` if the problem lacks either time.
pub(crate) fn library_ratio(dataset: &Dataset, solution: &Solution) -> Option<f64> {
    let best = |library: bool| {
        let rows = solution.configs.iter().zip(solution.times.iter_nanos());
        rows.filter(|(index, _)| matches!(dataset.configs.get(**index), Config::Library) == library)
            .map(|(_, time)| time.0)
            .min_by(f64::total_cmp)
    };
    Some(best(true)? / best(false)?)
}
