//! How good models are on problems that they were not trained on, and what can be expected for other such
//! problems. Problems are left out together, in folds, to judge a recipe.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use diode_api::EvaluationReport;
use diode_core::stats::{median, quantile};
use diode_core::{Config, Micros, Problem, ProblemGroup, hash_of_size};
use diode_model::{GroupConfidence, Judgement, Model, ModelError, RankedSpace, UnseenModels};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::evaluation::{Judge, Verdict, report};
use crate::fit::fit;
use crate::options::Plan;
use crate::progress::{Checkpoint, Progress};
use crate::{TrainError, TrainOptions, TrainingProblem, TrainingSet};

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

type Sizes = (u64, u64, u64, u64);

/// Folds are made of sizes. `mm` and `addmm` of the same size run nearly the same kernel, so a
/// model must not learn from one of them and be judged on the other.
fn sizes(problem: &Problem) -> Sizes {
    (problem.b, problem.m, problem.n, problem.k)
}

/// The fold of every size of a set.
pub struct Folds {
    of_sizes: BTreeMap<Sizes, usize>,
}

impl Folds {
    /// Deals sizes out to folds at random. The same seed gives the same folds.
    pub fn new(set: &TrainingSet, folds: usize, seed: u64) -> Result<Self, TrainError> {
        let all = set.iter().chain(set.others());
        let distinct: BTreeSet<Sizes> = all.map(|p| sizes(&p.problem)).collect();
        let mut distinct: Vec<Sizes> = distinct.into_iter().collect();
        distinct.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
        let dealt = distinct.into_iter().enumerate();
        let folds = Self { of_sizes: dealt.map(|(index, sizes)| (sizes, index % folds.max(1))).collect() };
        if folds.used().len() < 2 {
            return Err(TrainError::TooFewProblems { problems: folds.of_sizes.len() });
        }
        Ok(folds)
    }

    /// The fold of a problem. `None` for sizes that only related hardware has.
    pub fn of(&self, problem: &TrainingProblem) -> Option<usize> {
        self.of_sizes.get(&sizes(&problem.problem)).copied()
    }

    /// The folds that have at least one size, in order.
    pub fn used(&self) -> BTreeSet<usize> {
        self.of_sizes.values().copied().collect()
    }
}

/// A model that was trained and corrected without the problems of a fold.
#[derive(Debug, Clone)]
pub struct FoldModel {
    pub model: Model,
    /// The sizes of the fold's problems, as [`hash_of_size`].
    pub unseen_sizes: BTreeSet<u64>,
}

impl FoldModel {
    /// The file of several fold models, which [`UnseenModels`] reads; `None` if there are no models.
    pub fn file_of_all(folds: &[Self]) -> Result<Option<Vec<u8>>, ModelError> {
        let mut unseen = UnseenModels::default();
        for Self { model, unseen_sizes } in folds {
            unseen.add(model.to_bytes()?, unseen_sizes.iter().copied())?;
        }
        (!folds.is_empty()).then(|| unseen.to_bytes()).transpose()
    }
}

/// A model that was not trained on a fold, with its network for the library, and its picks for the fold's
/// problems.
pub(crate) struct JudgedFold {
    pub(crate) fold: usize,
    pub(crate) model: Model,
    pub(crate) outcomes: Vec<Outcome>,
}

/// Corrects the model of each fold by the picks of the other folds' models. The fold's own problems must not
/// count.
pub(crate) fn fold_models(
    judged: &[JudgedFold],
    set: &TrainingSet,
    folds: &Folds,
) -> Result<Vec<FoldModel>, TrainError> {
    let of_fold = |JudgedFold { fold, model, .. }: &JudgedFold| {
        let others = judged.iter().filter(|other| other.fold != *fold);
        let outcomes: Vec<&Outcome> = others.flat_map(|other| &other.outcomes).collect();
        let (pick_bias, library_handicap) = corrections(&outcomes);
        let model = model.clone().with_corrections(pick_bias, library_handicap)?;
        let unseen = set.iter().chain(set.others()).filter(|problem| folds.of(problem) == Some(*fold));
        let unseen_sizes = unseen.map(|problem| hash_of_size(&problem.problem)).collect();
        Ok(FoldModel { model, unseen_sizes })
    };
    judged.iter().map(of_fold).collect()
}

/// For each fold, trains a model on the other folds and judges it on this fold.
///
/// Returns the report over all problems, and the factor that corrects the predicted times of picks.
/// The factor is the median of measured time / predicted time. With too few problems there are
/// fewer folds.
pub fn cross_validate(
    set: &TrainingSet,
    options: &TrainOptions,
    folds: usize,
    observe: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
) -> Result<(EvaluationReport, f64), TrainError> {
    let plan = Plan { options: options.clone(), folds, created_at: String::new() };
    let fitted = fit(set, &plan, &Checkpoint::new(set, &plan), observe)?;
    let report = fitted.report.ok_or(TrainError::TooFewProblems { problems: set.problems() })?;
    Ok((report, fitted.model.metadata().pick_bias))
}

#[cfg(test)]
mod folds_tests {
    use diode_core::hardware::find;
    use diode_core::{
        Config, ConfigIndex, DType, Dataset, Method, Op, ProblemFields, Provenance, Solution, Tile,
        TimeColumn,
    };

    use super::*;

    #[test]
    fn folds_are_even_and_never_share_sizes() {
        let solution = |op, m| Solution {
            problem: Problem::new(ProblemFields::plain(op, 1, m, 64, 64, DType::BFloat16)).unwrap(),
            method: Method::Unspecified,
            configs: vec![ConfigIndex(0)],
            times: TimeColumn::from_nanos(vec![5_000]).unwrap(),
            minimum_ns: None,
            spread_ns: None,
            repeats: None,
            failures: Vec::new(),
        };
        let data = Dataset {
            hardware: find("nvidia-h200").unwrap(),
            provenance: Provenance::default(),
            configs: [Config::Mm(Tile::new(64, 64, 32, 3, 4))].into_iter().collect(),
            solutions: (1..=22).flat_map(|m| [Op::Mm, Op::Addmm].map(|op| solution(op, m))).collect(),
        };
        let set = TrainingSet::from_datasets(&[data], None).unwrap();
        assert_eq!(set.problems(), 44);
        let dealt = |seed| Folds::new(&set, 4, seed).unwrap();
        let folds = dealt(1);
        assert_eq!(folds.of_sizes, dealt(1).of_sizes);
        assert_ne!(folds.of_sizes, dealt(2).of_sizes);
        let mut problems = [0; 4];
        for problem in set.iter() {
            problems[folds.of(problem).unwrap()] += 1;
        }
        // There are 22 sizes, each with two ops.
        assert_eq!(problems, [12, 12, 10, 10]);
    }
}
