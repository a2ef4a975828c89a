//! How good a model's picks are, judged by measured times.

use std::collections::BTreeMap;
use std::time::Instant;

use diode_core::Config;
use diode_core::api::{EvaluationReport, TopK};
use diode_model::Model;

use crate::set::TrainingProblem;
use crate::statistics::{mean, median, spearman};
use crate::{TrainError, TrainingSet};

/// The numbers of picks that reports speak of.
const PICKS: [usize; 5] = [1, 3, 5, 8, 16];
/// "Near the best" for errors of time …
const NEAR: f64 = 2.0;
/// … and for picks.
const CLOSE: f64 = 1.05;

/// Judges a model by a set: its picks are among each problem's own configs.
pub fn evaluate(model: &Model, set: &TrainingSet) -> Result<EvaluationReport, TrainError> {
    let verdicts = judge(model, set)?;
    let trained_on_it = model.metadata().training.data_digest == set.digest();
    Ok(report(&verdicts, if trained_on_it { "the training data" } else { "given dataset" }))
}

/// The same with the library kernel as one more candidate, which is always
/// measured: the best of it and the first k picks, against the best of it and
/// everything. Over the problems with a library time; `None` if there are none.
pub fn evaluate_with_library(
    model: &Model,
    set: &TrainingSet,
) -> Result<Option<BTreeMap<String, TopK>>, TrainError> {
    let verdicts: Vec<Verdict> = judge(model, set)?.into_iter().filter_map(Verdict::with_library).collect();
    Ok((!verdicts.is_empty()).then(|| top_k(&verdicts)))
}

/// What came of one problem.
#[derive(Debug, Clone)]
pub(crate) struct Verdict {
    best_us: f64,
    /// The best measured time among the first picks, by [`PICKS`].
    picked_us: [f64; PICKS.len()],
    library_us: Option<f64>,
    /// Measured over predicted time of the first pick.
    pub(crate) pick_bias: f64,
    configs: usize,
    /// Sum of relative errors and count, over all timings and over the near-best.
    errors: (f64, usize),
    near_errors: (f64, usize),
    spearman: f64,
    rank_us: f64,
}

fn judge(model: &Model, set: &TrainingSet) -> Result<Vec<Verdict>, TrainError> {
    let (ours, theirs) = (&model.metadata().hardware.slug, &set.hardware().slug);
    if ours != theirs {
        return Err(TrainError::OtherHardware { model: ours.clone(), data: theirs.clone() });
    }
    set.iter().map(|problem| judge_one(model, set, problem)).collect()
}

pub(crate) fn judge_one(
    model: &Model,
    set: &TrainingSet,
    problem: &TrainingProblem,
) -> Result<Verdict, TrainError> {
    // In the order of configs: the measured order must not decide between equal predictions.
    let mut timings = problem.timings.clone();
    timings.sort_unstable_by_key(|timed| timed.config);
    let configs: Vec<Config> = timings.iter().map(|timed| *set.config(timed.config)).collect();
    let measured: Vec<f64> = timings.iter().map(|timed| timed.us).collect();
    Verdict::new(model, problem, &configs, &measured)
}

impl Verdict {
    fn new(
        model: &Model,
        problem: &TrainingProblem,
        configs: &[Config],
        measured: &[f64],
    ) -> Result<Self, TrainError> {
        let start = Instant::now();
        let predicted: Vec<f64> =
            model.predict(&problem.problem, configs)?.into_iter().map(|time| time.0).collect();
        let mut order: Vec<usize> = (0..configs.len()).collect();
        order.sort_unstable_by(|&i, &j| predicted[i].total_cmp(&predicted[j]).then(i.cmp(&j)));
        let rank_us = start.elapsed().as_secs_f64() * 1e6;

        let best_us = problem.timings[0].us;
        let best_of = |k: usize| order.iter().take(k).map(|&i| measured[i]).fold(f64::INFINITY, f64::min);
        let mut errors = (0.0, 0);
        let mut near_errors = (0.0, 0);
        for (&predicted, &measured) in predicted.iter().zip(measured) {
            let error = (predicted / measured - 1.0).abs();
            errors = (errors.0 + error, errors.1 + 1);
            if measured <= NEAR * best_us {
                near_errors = (near_errors.0 + error, near_errors.1 + 1);
            }
        }
        Ok(Self {
            best_us,
            picked_us: PICKS.map(best_of),
            library_us: problem.library_us,
            pick_bias: measured[order[0]] / predicted[order[0]],
            configs: configs.len(),
            errors,
            near_errors,
            spearman: spearman(&predicted, measured),
            rank_us,
        })
    }

    fn with_library(self) -> Option<Self> {
        let library = self.library_us?;
        let picked_us = self.picked_us.map(|us| us.min(library));
        Some(Self { best_us: self.best_us.min(library), picked_us, ..self })
    }
}

/// Sums verdicts up.
pub(crate) fn report(verdicts: &[Verdict], split: &str) -> EvaluationReport {
    let share = |pick: usize| {
        mean(verdicts.iter().map(|v| f64::from(u8::from(v.picked_us[pick] <= CLOSE * v.best_us))))
    };
    let mape = |errors: fn(&Verdict) -> (f64, usize)| {
        let (sum, count) =
            verdicts.iter().map(errors).fold((0.0, 0), |(s, c), (sum, count)| (s + sum, c + count));
        if count == 0 { 0.0 } else { sum / count as f64 }
    };
    EvaluationReport {
        problems: verdicts.len(),
        configs: verdicts.iter().map(|v| v.configs).max().unwrap_or(0),
        top_k: top_k(verdicts),
        mape_all: mape(|v| v.errors),
        mape_within_2x: mape(|v| v.near_errors),
        spearman_median: median(verdicts.iter().map(|v| v.spearman).collect()).unwrap_or(1.0),
        rank_us_per_problem: mean(verdicts.iter().map(|v| v.rank_us)),
        within_5_percent: PICKS.iter().enumerate().map(|(i, k)| (k.to_string(), share(i))).collect(),
        split: split.to_owned(),
    }
}

fn top_k(verdicts: &[Verdict]) -> BTreeMap<String, TopK> {
    let of = |pick: usize| {
        let ratios = || verdicts.iter().map(move |v| v.best_us / v.picked_us[pick]);
        TopK { geomean: mean(ratios().map(f64::ln)).exp(), worst: ratios().fold(1.0, f64::min) }
    };
    PICKS.iter().enumerate().map(|(i, k)| (k.to_string(), of(i))).collect()
}
