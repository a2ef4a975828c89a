//! How good a model's picks are. They are judged by measured times and compared with choices
//! without a model.

mod baselines;
mod document;
mod judged;

use std::collections::BTreeMap;

use diode_api::{EvaluationReport, KeptReport, TopK};
use diode_core::mark_of_size;
use diode_core::stats::{mean, median};
use diode_model::{Predictor, Training};

use crate::evaluation::baselines::baselines;
use crate::{TrainError, TrainingProblem, TrainingSet};

pub use crate::evaluation::baselines::{Baseline, Baselines};
pub use crate::evaluation::document::{
    Evaluation, EvaluationGroup, ProblemRow, WithLibrary, without_a_model,
};
pub(crate) use crate::evaluation::judged::judge_while;
pub use crate::evaluation::judged::{Judge, Judged, JudgedRow, judge};

/// Judges a model on a set. The model picks among the configs that each problem of the set has.
pub fn evaluate(model: &dyn Predictor, set: &TrainingSet) -> Result<EvaluationReport, TrainError> {
    Ok(report(&verdicts(model, set)?, &split(model, set)))
}

/// The same with the library kernel as a candidate, over the problems with a library time. `None`
/// if there are no such problems. If the model does not predict the library's time, the library is
/// timed beside the picks.
pub fn evaluate_with_library(
    model: &dyn Predictor,
    set: &TrainingSet,
) -> Result<Option<BTreeMap<String, TopK>>, TrainError> {
    Ok(with_library(&verdicts(model, set)?))
}

pub(crate) fn verdicts(model: &dyn Predictor, set: &TrainingSet) -> Result<Vec<Verdict>, TrainError> {
    Ok(judge(model, set)?.iter().map(Verdict::new).collect())
}

/// Where the judged problems come from, in words.
fn split(model: &dyn Predictor, set: &TrainingSet) -> String {
    split_of(model.training().and_then(|training| learnt(set, training, &training.sizes)), set)
}

/// The same for a set of which so many problems were [learnt], if that is known.
pub fn split_of(learnt: Option<usize>, set: &TrainingSet) -> String {
    match learnt {
        None | Some(0) => "given dataset".to_owned(),
        Some(all) if all == set.problems() => "the training data".to_owned(),
        Some(some) => format!("given dataset, of which the model was trained on {some}"),
    }
}

/// How many problems of a set have a size among those that a model was trained on. `None` if these are not known.
pub fn learnt(set: &TrainingSet, training: &Training, sizes: &[u32]) -> Option<usize> {
    if training.data_digest == set.digest() {
        return Some(set.problems());
    }
    let is_learnt = |one: &&TrainingProblem| sizes.binary_search(&mark_of_size(&one.problem)).is_ok();
    (!sizes.is_empty()).then(|| set.iter().filter(is_learnt).count())
}

/// Spearman's rank correlation. It is 1 if all values of `a`, or all of `b`, are equal.
fn spearman(a: &[f64], b: &[f64]) -> f64 {
    let (a, b) = (ranks(a), ranks(b));
    let middle = (a.len() as f64 - 1.0) / 2.0;
    let (mut ab, mut aa, mut bb) = (0.0, 0.0, 0.0);
    for (x, y) in a.iter().zip(&b) {
        let (x, y) = (x - middle, y - middle);
        ab += x * y;
        aa += x * x;
        bb += y * y;
    }
    if aa == 0.0 || bb == 0.0 { 1.0 } else { ab / (aa * bb).sqrt() }
}

/// Ranks from 0. Equal values share the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|&i, &j| values[i].total_cmp(&values[j]));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    for group in order.chunk_by(|&i, &j| values[i] == values[j]) {
        let rank = start as f64 + (group.len() as f64 - 1.0) / 2.0;
        for &index in group {
            ranks[index] = rank;
        }
        start += group.len();
    }
    ranks
}

/// The numbers of picks in reports.
const PICKS: [usize; 5] = [1, 3, 5, 8, 16];
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
    pub fn new(judged: &Judged) -> Self {
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

    fn predicts_library(&self) -> bool {
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
fn with_library(verdicts: &[Verdict]) -> Option<BTreeMap<String, TopK>> {
    let shares: Vec<Shares> = verdicts.iter().filter_map(|v| v.library).collect();
    (!shares.is_empty()).then(|| by_picks(shares.into_iter()))
}

fn near_error(verdicts: &[Verdict]) -> f64 {
    mape(verdicts, |v| v.near_errors)
}

/// The share of problems for which the best of k picks is close to the best config.
fn within_5_percent(verdicts: &[Verdict]) -> BTreeMap<String, f64> {
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
fn top_k(shares: impl Iterator<Item = f64> + Clone) -> TopK {
    TopK { geomean: mean(shares.clone().map(f64::ln)).exp(), worst: shares.fold(1.0, f64::min) }
}

/// How near a model's first picks come to the best config, problem by problem.
#[derive(Debug, Clone)]
pub struct FirstPicks {
    verdicts: Vec<Verdict>,
    baselines: Baselines,
}

impl FirstPicks {
    /// The first picks for the problems of a set.
    pub fn new(model: &dyn Predictor, set: &TrainingSet) -> Result<Self, TrainError> {
        Self::of_while(model, set, &|| true)
    }

    /// Like [`Self::new`]. Asks `goes_on` before each problem and [stops](TrainError::Stopped) if it is false.
    pub fn of_while(
        model: &dyn Predictor,
        set: &TrainingSet,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Self, TrainError> {
        let judged = judge_while(model, set, goes_on)?;
        let verdicts = judged.iter().map(Verdict::new).collect();
        Ok(Self { verdicts, baselines: baselines(&judged, set, None)? })
    }

    /// For each problem, in the order of the set: the share of the best Triton config that the first pick
    /// reaches.
    pub fn shares(&self) -> Vec<f64> {
        self.triton()
    }

    /// The figures of all first picks; `None` if there are no picks.
    pub fn report(&self) -> Option<KeptReport> {
        let (triton, everything) = (self.triton(), self.everything());
        let of = |shares: &[f64]| (!shares.is_empty()).then(|| top_k(shares.iter().copied()));
        Some(KeptReport {
            problems: triton.len() as u64,
            triton: of(&triton)?,
            everything: of(&everything),
            timed_library: everything.len() as u64,
            baselines: self.without_a_model(|baseline| baseline.triton),
            baselines_of_everything: self.without_a_model(|baseline| baseline.with_library),
        })
    }

    /// How fast these picks are compared with another model's picks for the same problems: the geometric mean
    /// of the other's time / this model's time. It is above 1 if this model's picks are faster. The library
    /// is a candidate where it was timed, but not if only one of the models predicts its time: the other
    /// model would always get it.
    pub fn beside(&self, other: &Self) -> f64 {
        let share = |verdict: &Verdict, with_library: bool| {
            let everything = verdict.shares_with_library().filter(|_| with_library);
            everything.unwrap_or(verdict.shares())[0]
        };
        let ratio = |(own, other): (&Verdict, &Verdict)| {
            let same_rule = own.predicts_library() == other.predicts_library();
            (share(own, same_rule) / share(other, same_rule)).ln()
        };
        mean(self.verdicts.iter().zip(&other.verdicts).map(ratio)).exp()
    }

    fn without_a_model(&self, figure: fn(&Baseline) -> Option<TopK>) -> BTreeMap<String, TopK> {
        let figures = self.baselines.values().map(|one| Some((one.what.clone(), figure(one)?)));
        figures.flatten().collect()
    }

    fn triton(&self) -> Vec<f64> {
        self.verdicts.iter().map(|verdict| verdict.shares()[0]).collect()
    }

    fn everything(&self) -> Vec<f64> {
        self.verdicts.iter().filter_map(|verdict| Some(verdict.shares_with_library()?[0])).collect()
    }
}

#[cfg(test)]
mod rank_correlation_tests {
    use super::*;

    #[test]
    fn rank_correlation_with_ties() {
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[10.0, 20.0, 30.0]), 1.0);
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]), -1.0);
        // scipy.stats.spearmanr([1, 2, 2, 4], [1, 3, 2, 4]) = 0.9486832980505138
        let tied = spearman(&[1.0, 2.0, 2.0, 4.0], &[1.0, 3.0, 2.0, 4.0]);
        assert!((tied - 0.948_683_298_050_513_8).abs() < 1e-12, "{tied}");
        assert_eq!(spearman(&[1.0], &[5.0]), 1.0);
    }
}
