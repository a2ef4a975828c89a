//! How good the picks for one problem are, and for all problems together.

use std::collections::BTreeMap;

use diode_api::{EvaluationReport, TopK};
use diode_core::stats::{mean, median};

use super::judged::Judged;
use super::rank_correlation::spearman;

/// The numbers of picks in reports.
pub(super) const PICKS: [usize; 5] = [1, 3, 5, 8, 16];
/// In figures about errors, a time is near-best if it is within this factor of the best time.
const NEAR: f64 = 2.0;
/// A pick is close to the best if its time is within this factor of the best time.
const CLOSE: f64 = 1.05;

/// How good the picks for one problem are.
#[derive(Debug, Clone)]
pub struct Verdict {
    /// One share for each of [`PICKS`].
    triton: Shares,
    library: Option<Shares>,
    /// Whether the model picks the library by its predicted time.
    predicts_library: bool,
    /// The first pick's measured time / its predicted time.
    pub(crate) pick_bias: f64,
    configs: usize,
    /// Sum and number of the relative errors of all timings. `near_errors` is over near-best timings.
    errors: (f64, usize),
    near_errors: (f64, usize),
    spearman: f64,
    rank_us: f64,
}

/// For each of [`PICKS`]: the best measured time / the best measured time among the first picks.
type Shares = [f64; PICKS.len()];

impl Verdict {
    pub fn of(judged: &Judged) -> Self {
        let best_us = judged.best().measured_us;
        let (mut errors, mut near_errors) = ((0.0, 0), (0.0, 0));
        for row in &judged.rows {
            let error = (row.log_error().exp() - 1.0).abs();
            errors = (errors.0 + error, errors.1 + 1);
            if row.measured_us <= NEAR * best_us {
                near_errors = (near_errors.0 + error, near_errors.1 + 1);
            }
        }
        let predicted: Vec<f64> = judged.rows.iter().map(|row| row.predicted_ln).collect();
        let measured: Vec<f64> = judged.rows.iter().map(|row| row.measured_us).collect();
        let with_library = |picks| judged.picked_with_library(picks).map(|(picked, best)| best / picked);
        Self {
            triton: PICKS.map(|picks| best_us / judged.picked(picks)),
            library: judged.library_us.map(|_| PICKS.map(|picks| with_library(picks).unwrap_or(1.0))),
            predicts_library: judged.predicts_library(),
            pick_bias: (-judged.rows[0].log_error()).exp(),
            configs: judged.rows.len(),
            errors,
            near_errors,
            spearman: spearman(&predicted, &measured),
            rank_us: judged.rank_us,
        }
    }

    /// For each of [`PICKS`], the share of the best Triton config that the best of the picks
    /// reaches.
    pub(crate) fn shares(&self) -> Shares {
        self.triton
    }

    pub(crate) fn shares_with_library(&self) -> Option<Shares> {
        self.library
    }

    pub(super) fn predicts_library(&self) -> bool {
        self.predicts_library
    }

    /// The mean error of near-best predicted times, as a share.
    pub(crate) fn near_error(&self) -> f64 {
        self.near_errors.0 / self.near_errors.1.max(1) as f64
    }
}

/// Sums verdicts up.
pub fn report(verdicts: &[Verdict], split: &str) -> EvaluationReport {
    let mut correlations: Vec<f64> = verdicts.iter().map(|v| v.spearman).collect();
    EvaluationReport {
        problems: verdicts.len(),
        configs: verdicts.iter().map(|v| v.configs).max().unwrap_or(0),
        top_k: by_picks(verdicts.iter().map(|v| v.triton)),
        mape_all: mape(verdicts, |v| v.errors),
        mape_within_2x: near_error(verdicts),
        spearman_median: median(&mut correlations).unwrap_or(1.0),
        rank_us_per_problem: mean(verdicts.iter().map(|v| v.rank_us)),
        within_5_percent: within_5_percent(verdicts),
        split: split.to_owned(),
    }
}

/// The shares of the best of everything, over the problems with a library time. `None` if there are
/// no such problems.
pub(super) fn with_library(verdicts: &[Verdict]) -> Option<BTreeMap<String, TopK>> {
    let shares: Vec<Shares> = verdicts.iter().filter_map(|v| v.library).collect();
    (!shares.is_empty()).then(|| by_picks(shares.into_iter()))
}

pub(crate) fn near_error(verdicts: &[Verdict]) -> f64 {
    mape(verdicts, |v| v.near_errors)
}

/// The share of problems for which the best of k picks is close to the best config.
pub(crate) fn within_5_percent(verdicts: &[Verdict]) -> BTreeMap<String, f64> {
    let share =
        |pick: usize| mean(verdicts.iter().map(|v| f64::from(u8::from(v.triton[pick] * CLOSE >= 1.0))));
    PICKS.iter().enumerate().map(|(i, k)| (k.to_string(), share(i))).collect()
}

fn mape(verdicts: &[Verdict], errors: fn(&Verdict) -> (f64, usize)) -> f64 {
    let (sum, count) =
        verdicts.iter().map(errors).fold((0.0, 0), |(s, c), (sum, count)| (s + sum, c + count));
    if count == 0 { 0.0 } else { sum / count as f64 }
}

fn by_picks(shares: impl Iterator<Item = Shares> + Clone) -> BTreeMap<String, TopK> {
    let of = |pick: usize| top_k(shares.clone().map(|shares| shares[pick]));
    PICKS.iter().enumerate().map(|(i, k)| (k.to_string(), of(i))).collect()
}

/// Sums up shares of the best.
pub(crate) fn top_k(shares: impl Iterator<Item = f64> + Clone) -> TopK {
    TopK { geomean: mean(shares.clone().map(f64::ln)).exp(), worst: shares.fold(1.0, f64::min) }
}
