//! How the best Triton configs compare with the library kernel.

use serde::{Deserialize, Serialize};

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
    pub fn of(ratios: &[f64]) -> Self {
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
    fn wins_and_ties_are_counted_over_all_problems() {
        let Comparison { problems, wins, ties, ratio } = Comparison::of(&[2.0, 0.5, 1.005, 0.995, 1.02]);
        assert_eq!((problems, wins, ties), (5, 3, 2));
        assert!((ratio.unwrap() - 1.02_f64.powf(0.2)).abs() < 1e-4);
        assert_eq!(Comparison::of(&[]), Comparison::default());
    }
}
