//! How often each config was run, and how far the times of its runs lie apart.

use std::collections::HashMap;

use diode_core::Config;
use diode_core::stats::median;

use super::gathered::ReadSolution;

/// Spreads are rounded to four decimals. More would be noise.
const DIGITS: f64 = 1e4;

/// The repeats of one config, over the solutions of a view that count.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Repeats {
    /// The interquartile range of the repeats, divided by the time. It is the median over the solutions that
    /// state it.
    pub(crate) spread: Option<f64>,
    /// The number of runs, summed over the solutions that state it.
    pub(crate) number: Option<u64>,
}

#[derive(Default)]
struct Known {
    spreads: Vec<f64>,
    number: Option<u64>,
}

pub(super) fn repeats(measured: &[ReadSolution]) -> HashMap<Config, Repeats> {
    let mut known: HashMap<Config, Known> = HashMap::new();
    for one in measured.iter().filter(|one| one.counts && one.solution.knows_repeats()) {
        for (config, spread, repeats) in one.solution.repeats() {
            let known = known.entry(config).or_default();
            // A single run has no spread. Old databases may have times of zero, whose spread is not finite.
            known.spreads.extend(spread.filter(|spread| spread.is_finite() && repeats != Some(1)));
            if let Some(repeats) = repeats {
                known.number = Some(known.number.unwrap_or(0) + u64::from(repeats));
            }
        }
    }
    let repeats = |Known { mut spreads, number }: Known| {
        let spread = median(&mut spreads).map(|spread| (spread * DIGITS).round() / DIGITS);
        Repeats { spread, number }
    };
    known.into_iter().map(|(config, known)| (config, repeats(known))).collect()
}
