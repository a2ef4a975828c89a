//! Which problems are left out together to judge a recipe.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use diode_api::EvaluationReport;
use diode_core::{Problem, hash_of_size};
use diode_model::{Model, ModelError, UnseenModels};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::fit::fit;
use crate::judgement::{Outcome, corrections};
use crate::options::Plan;
use crate::progress::Checkpoint;
use crate::progress::Progress;
use crate::{TrainError, TrainOptions, TrainingProblem, TrainingSet};

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
mod tests {
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
