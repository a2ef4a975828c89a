//! Medians, quantiles and means of times.
//!
//! There are two medians of decimal numbers. They differ for an even count, where two values are in the
//! middle: [`median`] is the mean of these two, and [`upper_median`] the larger one.

use serde::{Deserialize, Serialize};

/// The median. An even count gives the mean of the two values in the middle. `None` if there are no values.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    let even = values.len().is_multiple_of(2);
    Some(if even { f64::midpoint(values[values.len() / 2 - 1], upper) } else { upper })
}

/// The median. An even count gives the larger of the two values in the middle. `None` if there are no
/// values.
pub fn upper_median(values: &mut [f64]) -> Option<f64> {
    let middle = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable_by(middle, f64::total_cmp).1)
}

/// The median of whole numbers. An even count gives the mean of the two values in the middle, rounded down.
/// `None` if there are no values.
pub fn integer_median(values: &mut [u64]) -> Option<u64> {
    values.sort_unstable();
    integer_quantile(values, 2, 4)
}

/// The value below which `share` of the ascending values lie, interpolated between its two
/// neighbours. `None` if there are no values.
pub fn quantile(ascending: &[f64], share: f64) -> Option<f64> {
    let place = share * (ascending.len().checked_sub(1)? as f64);
    let below = ascending[place.floor() as usize];
    let above = ascending[place.ceil() as usize];
    Some(below + (above - below) * place.fract())
}

/// The value below which `part`/`parts` of the ascending values lie, interpolated between its two
/// neighbours and rounded down. `None` if there are no values.
pub fn integer_quantile(ascending: &[u64], part: u64, parts: u64) -> Option<u64> {
    let last = ascending.len().checked_sub(1)? as u64;
    let (below, rest) = (last * part / parts, last * part % parts);
    let low = ascending[below as usize];
    let high = ascending[(below + u64::from(rest > 0)) as usize];
    Some(low + (high - low) * rest / parts)
}

/// The arithmetic mean; 0 if there are no values.
pub fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let count = |(sum, count), value| (sum + value, count + 1_usize);
    let (sum, count) = values.into_iter().fold((0.0, 0), count);
    if count == 0 { 0.0 } else { sum / count as f64 }
}

/// Two times are a tie if their ratio is this near to 1: repeats of the fastest configs differ by as
/// much.
pub const TIE: f64 = 0.01;

/// How the best Triton config does against the library kernel, over problems where both were timed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Comparison {
    /// Problems where both were timed.
    pub problems: u64,
    /// Those where Triton is faster.
    pub wins: u64,
    /// Those where their times differ by 1 % at most, whoever is faster.
    pub ties: u64,
    /// Geometric mean of library time / Triton time; absent without problems.
    pub ratio: Option<f64>,
}

impl Comparison {
    /// Summarises the ratios library time / Triton time.
    pub fn from_ratios(ratios: &[f64]) -> Self {
        let count =
            |wanted: &dyn Fn(f64) -> bool| ratios.iter().filter(|ratio| wanted(**ratio)).count() as u64;
        Self {
            problems: ratios.len() as u64,
            wins: count(&|ratio| ratio > 1.0),
            ties: count(&|ratio| (ratio - 1.0).abs() <= TIE),
            ratio: geometric_mean(ratios),
        }
    }
}

/// The geometric mean; `None` if there are no values.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    let sum: f64 = values.iter().map(|value| value.ln()).sum();
    (!values.is_empty()).then(|| (sum / values.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&mut []), None);
        assert_eq!(upper_median(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(upper_median(&mut [4.0, 1.0, 2.0, 3.0]), Some(3.0));
        assert_eq!(upper_median(&mut []), None);
        assert_eq!(integer_median(&mut [100, 1, 2, 3]), Some(2));
        assert_eq!(integer_median(&mut [30, 10]), Some(20));
        assert_eq!(integer_median(&mut []), None);
    }

    #[test]
    fn quantiles() {
        let shares = [0.0, 0.1, 0.5, 1.0];
        let of_five = shares.map(|share| quantile(&[1.0, 2.0, 3.0, 4.0, 5.0], share));
        assert_eq!(of_five, [Some(1.0), Some(1.4), Some(3.0), Some(5.0)]);
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(integer_quantile(&[1, 2, 3, 100], 3, 4), Some(27));
        assert_eq!(integer_quantile(&[], 1, 4), None);
    }

    #[test]
    fn means() {
        assert_eq!(mean([1.0, 2.0, 6.0]), 3.0);
        assert_eq!(mean([]), 0.0);
    }
}

#[cfg(test)]
mod comparison_tests {
    use super::*;

    #[test]
    fn wins_and_ties_are_counted_over_all_problems() {
        let Comparison { problems, wins, ties, ratio } =
            Comparison::from_ratios(&[2.0, 0.5, 1.005, 0.995, 1.02]);
        assert_eq!((problems, wins, ties), (5, 3, 2));
        assert!((ratio.unwrap() - 1.02_f64.powf(0.2)).abs() < 1e-4);
        assert_eq!(Comparison::from_ratios(&[]), Comparison::default());
    }
}
