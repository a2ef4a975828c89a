//! How good models are on problems that they were not trained on, and what can be expected for other such
//! problems.

use diode_api::EvaluationReport;
use diode_core::stats::{median, quantile};
use diode_core::{Config, Micros, Problem, ProblemGroup};
use diode_model::{GroupConfidence, Judgement, Model, RankedSpace};

use crate::evaluation::{Judge, Verdict, report};
use crate::{TrainError, TrainingProblem, TrainingSet};

/// The numbers of picks for which a confidence is stated.
const PICKS: [u32; 5] = [1, 3, 5, 8, 16];
/// A pick is good if it is within this factor of the best.
const CLOSE: f64 = 1.05;
/// A group's share is computed as if the group had this many more problems with the share of all problems.
/// Otherwise the share of a group with few problems would be mere luck.
const PRIOR_PROBLEMS: f64 = 4.0;
/// The measured time / the predicted time of four picks in five lies between these quantiles.
const RANGE: (f64, f64) = (0.1, 0.9);
/// The library's handicaps that are tried, as steps of a logarithm.
const HANDICAPS: std::ops::RangeInclusive<i32> = -12..=12;
const HANDICAP_STEP: f64 = 0.01;

/// One problem, ranked by a model that was not trained on it.
pub(crate) struct Outcome {
    problem: Problem,
    verdict: Verdict,
    ranked: RankedSpace,
    /// Every config with its measured time, sorted by config.
    measured: Vec<(Config, f64)>,
    library_us: Option<f64>,
}

impl Outcome {
    /// The outcomes of a model on the problems of a set that `admit` accepts.
    pub(crate) fn of(
        model: &Model,
        set: &TrainingSet,
        admit: impl Fn(&TrainingProblem) -> bool,
    ) -> Result<Vec<Self>, TrainError> {
        let mut judge = Judge::new(model);
        let mut outcomes = Vec::new();
        for problem in set.iter().filter(|problem| admit(problem)) {
            let judged = judge.judge(set, problem)?;
            let verdict = Verdict::new(&judged);
            let mut measured: Vec<(Config, f64)> =
                judged.rows.iter().map(|row| (row.config, row.measured_us)).collect();
            measured.sort_unstable_by_key(|(config, _)| *config);
            let Some(ranked) = judged.ranked else { continue };
            let (problem, library_us) = (problem.problem.clone(), problem.library_us);
            outcomes.push(Self { problem, verdict, ranked, measured, library_us });
        }
        Ok(outcomes)
    }

    /// The problem, and the share of the best Triton config that the first pick reached.
    pub(crate) fn first_pick(&self) -> (Problem, f64) {
        (self.problem.clone(), self.verdict.shares()[0])
    }

    fn group(&self) -> ProblemGroup {
        ProblemGroup::for_problem(&self.problem)
    }

    fn measured(&self, config: &Config) -> f64 {
        if config.is_library() {
            return self.library_us.unwrap_or(f64::INFINITY);
        }
        let place = self.measured.binary_search_by(|(known, _)| known.cmp(config));
        place.map_or(f64::INFINITY, |at| self.measured[at].1)
    }

    /// The best measured time, including the library's if it is known.
    fn best(&self) -> f64 {
        let times = self.measured.iter().map(|(_, us)| *us);
        times.chain(self.library_us).fold(f64::INFINITY, f64::min)
    }

    /// The ranking with the corrections of a finished model.
    fn corrected(&self, pick_bias: f64, handicap: f64) -> RankedSpace {
        let configs = self.ranked.configs.iter().map(|(config, us)| (*config, Micros(us.0 * pick_bias)));
        let library = self.ranked.library.filter(|_| self.library_us.is_some());
        RankedSpace::new(configs.collect(), library, handicap).rounding(self.ranked.rounds())
    }

    fn first(&self) -> Option<(f64, f64)> {
        let (config, predicted) = self.ranked.configs.first()?;
        Some((self.measured(config), predicted.0))
    }
}

/// For each outcome, the first pick's measured time / its predicted time.
fn biases(outcomes: &[&Outcome]) -> Vec<f64> {
    outcomes.iter().map(|outcome| outcome.verdict.pick_bias).collect()
}

/// The factors that correct the predicted times of picks, and of the library.
pub(crate) fn corrections(outcomes: &[&Outcome]) -> (f64, f64) {
    let pick_bias = median(&mut biases(outcomes)).unwrap_or(1.0);
    (pick_bias, best_handicap(outcomes, pick_bias))
}

/// Judges models by the outcomes of other models that were trained in the same way.
pub(crate) fn judgement(outcomes: &[&Outcome], folds: usize) -> Judgement {
    let (pick_bias, handicap) = corrections(outcomes);
    let shares = |outcomes: &[&Outcome]| {
        PICKS.map(|picks| {
            let good = |outcome: &&&Outcome| {
                let picks = outcome.corrected(pick_bias, handicap).picks(picks as usize);
                let best =
                    picks.iter().map(|(config, _)| outcome.measured(config)).fold(f64::INFINITY, f64::min);
                best <= CLOSE * outcome.best()
            };
            outcomes.iter().filter(good).count() as f64
        })
    };
    let of_all = shares(outcomes).map(|good| good / outcomes.len() as f64);
    let mut confidence = Vec::new();
    for &group in ProblemGroup::ALL {
        let members: Vec<&Outcome> =
            outcomes.iter().copied().filter(|outcome| outcome.group() == group).collect();
        if members.is_empty() {
            continue;
        }
        let mut likely: f64 = 0.0;
        let shares = shares(&members).into_iter().zip(of_all).zip(PICKS).map(|((good, of_all), picks)| {
            let share = (good + PRIOR_PROBLEMS * of_all) / (members.len() as f64 + PRIOR_PROBLEMS);
            // With more picks, a good pick is never less likely.
            likely = likely.max(share);
            (picks, likely)
        });
        let within_5_percent = shares.collect();
        // A group with few problems gets the range of all problems.
        let is_small = (members.len() as f64) < 2.0 * PRIOR_PROBLEMS;
        let mut ratios = biases(if is_small { outcomes } else { &members });
        ratios.sort_unstable_by(f64::total_cmp);
        let at = |share| quantile(&ratios, share).unwrap_or(pick_bias) / pick_bias;
        let time_range = (at(RANGE.0), at(RANGE.1));
        confidence.push(GroupConfidence {
            group,
            problems: members.len() as u64,
            within_5_percent,
            time_range,
        });
    }
    let verdicts: Vec<Verdict> = outcomes.iter().map(|outcome| outcome.verdict.clone()).collect();
    let split = format!("{folds}-fold cross-validation by problem");
    // No ranking time is stated: it would differ from run to run, and so would the model's file.
    let report = EvaluationReport { rank_us_per_problem: 0.0, ..report(&verdicts, &split) };
    Judgement { report, confidence, pick_bias, library_handicap: handicap }
}

/// The factor for the library's time with which single picks come nearest to the best times.
fn best_handicap(outcomes: &[&Outcome], pick_bias: f64) -> f64 {
    let loss = |handicap: f64| -> f64 {
        outcomes
            .iter()
            .filter_map(|outcome| {
                let (of_config, predicted) = outcome.first()?;
                let (library, of_library) = (outcome.ranked.library?.0, outcome.library_us?);
                let taken = if library * handicap < predicted * pick_bias { of_library } else { of_config };
                Some((taken / outcome.best()).ln())
            })
            .sum()
    };
    let tried = HANDICAPS.map(|step| (f64::from(step) * HANDICAP_STEP).exp());
    // Among factors that are equally good, the factor nearest to 1 is chosen.
    let by_loss =
        |a: &f64, b: &f64| loss(*a).total_cmp(&loss(*b)).then_with(|| a.ln().abs().total_cmp(&b.ln().abs()));
    tried.min_by(by_loss).unwrap_or(1.0)
}
