//! Which problems are left out together to judge a recipe.

use std::collections::{BTreeMap, BTreeSet};

use diode_core::Problem;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::{TrainError, TrainingProblem, TrainingSet};

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
