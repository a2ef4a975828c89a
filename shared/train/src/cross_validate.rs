//! Judging the recipe on problems that the models have not seen.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use diode_core::Problem;
use diode_core::api::EvaluationReport;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::evaluate::{judge, report};
use crate::progress::Progress;
use crate::statistics::median;
use crate::trainer::{model, train_network};
use crate::{TrainError, TrainOptions, TrainingSet};

/// Trains on all folds but one and judges on that one, for each fold.
///
/// Returns the report over all problems, each judged by a model that has not
/// seen it, and the factor that corrects the predicted times of picks: the
/// median of measured over predicted. Fewer folds are made when there are not
/// enough problems.
pub fn cross_validate(
    set: &TrainingSet,
    options: &TrainOptions,
    folds: usize,
    observe: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
) -> Result<(EvaluationReport, f64), TrainError> {
    let fold_of = assign(set, folds, options.seed);
    let used: BTreeSet<usize> = fold_of.values().copied().collect();
    if used.len() < 2 {
        return Err(TrainError::TooFewProblems { problems: fold_of.len() });
    }
    let mut verdicts = Vec::new();
    for &fold in &used {
        let phase = format!("fold {} of {}", fold + 1, used.len());
        let seen = set.subset(|p| fold_of[&sizes(&p.problem)] != fold);
        let unseen = set.subset(|p| fold_of[&sizes(&p.problem)] == fold);
        let network = train_network(&seen, options, &phase, observe)?;
        let judged = model(&seen, options, String::new(), network)?;
        verdicts.extend(judge(&judged, &unseen)?);
    }
    let pick_bias = median(verdicts.iter().map(|v| v.pick_bias).collect()).unwrap_or(1.0);
    Ok((report(&verdicts, &format!("{}-fold cross-validation by problem", used.len())), pick_bias))
}

type Sizes = (u64, u64, u64, u64);

/// What folds are made of. `mm` and `addmm` of the same sizes run nearly the same
/// kernel, so one must not be learnt from to be judged on the other.
fn sizes(problem: &Problem) -> Sizes {
    (problem.b, problem.m, problem.n, problem.k)
}

/// Deals sizes out to folds, at random but the same for the same seed.
fn assign(set: &TrainingSet, folds: usize, seed: u64) -> BTreeMap<Sizes, usize> {
    let distinct: BTreeSet<Sizes> = set.iter().map(|p| sizes(&p.problem)).collect();
    let mut distinct: Vec<Sizes> = distinct.into_iter().collect();
    distinct.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    distinct.into_iter().enumerate().map(|(index, sizes)| (sizes, index % folds.max(1))).collect()
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
        let folds = assign(&set, 4, 1);
        assert_eq!(folds, assign(&set, 4, 1));
        assert_ne!(folds, assign(&set, 4, 2));
        let mut problems = [0; 4];
        for problem in set.iter() {
            problems[folds[&sizes(&problem.problem)]] += 1;
        }
        // 22 sizes with two operators each.
        assert_eq!(problems, [12, 12, 10, 10]);
    }
}
