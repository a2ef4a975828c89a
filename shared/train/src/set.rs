//! The data that a model is trained on: merged timings of one hardware by one method.

mod merge;
mod related;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use diode_core::hardware::{Facts, Hardware};
use diode_core::ids::Digest;
use diode_core::{Config, ConfigDictionary, ConfigIndex, DType, Dataset, Method, Op, Problem, is_kept};
use sha2::{Digest as _, Sha256};

use crate::TrainError;
use crate::left_out::LeftOut;

/// Timings to learn from, or to judge a model by.
#[derive(Debug, Clone)]
pub struct TrainingSet {
    hardware: Hardware,
    facts: Facts,
    method: Method,
    /// All configs that occur, sorted, so that indices compare like their configs.
    configs: Arc<ConfigDictionary>,
    /// The problems, sorted.
    problems: Vec<Arc<TrainingProblem>>,
    /// Problems that were timed by other methods. Models learn from them but are not judged by them.
    /// Each problem names its method.
    others: Vec<Arc<TrainingProblem>>,
    /// Timings of other hardware, with one set for each.
    related: Vec<TrainingSet>,
    left_out: LeftOut,
    without_kept: bool,
}

/// Everything that was measured on one problem.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainingProblem {
    pub problem: Problem,
    /// The method of all its times.
    pub method: Method,
    /// Starts with the fastest. It is never empty.
    pub timings: Vec<TimedConfig>,
    /// The time of the vendor's library, if it was measured. If the configs round to TF32, so does the library.
    pub library_us: Option<f64>,
}

/// One config with its time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimedConfig {
    /// The config's index among the set's configs.
    pub config: ConfigIndex,
    pub us: f64,
}

impl TrainingSet {
    /// Merges datasets. Several timings of one config on one problem become their median. Methods are
    /// never mixed: without a `method`, the method with most timings is taken.
    pub fn from_datasets(datasets: &[Dataset], method: Option<Method>) -> Result<Self, TrainError> {
        merge::merge(datasets, method)
    }

    pub fn hardware(&self) -> &Hardware {
        &self.hardware
    }

    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    pub fn method(&self) -> Method {
        self.method
    }

    /// The number of problems.
    pub fn problems(&self) -> usize {
        self.problems.len()
    }

    /// The number of timings after merging.
    pub fn timings(&self) -> usize {
        self.iter().map(|problem| problem.timings.len()).sum()
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &TrainingProblem> {
        self.problems.iter().map(Arc::as_ref)
    }

    /// Problems that were timed by other methods than the set's. Their times are never compared with
    /// the set's times: only configs of the same problem are compared.
    pub fn others(&self) -> impl ExactSizeIterator<Item = &TrainingProblem> {
        self.others.iter().map(Arc::as_ref)
    }

    /// The configs of a problem, in the order of its timings.
    pub fn configs<'a>(&'a self, problem: &'a TrainingProblem) -> impl Iterator<Item = &'a Config> {
        problem.timings.iter().map(|timed| self.configs.get(timed.config))
    }

    /// The config of a timing.
    pub fn config(&self, index: ConfigIndex) -> &Config {
        self.configs.get(index)
    }

    /// What was given but is not in the set.
    pub fn left_out(&self) -> LeftOut {
        self.left_out
    }

    /// Whether the problems that are kept for judging were removed.
    pub fn is_without_kept(&self) -> bool {
        self.without_kept
    }

    /// Splits the set into problems that may be trained on and problems that are kept for judging. The
    /// second part may be empty.
    pub fn split_kept(&self) -> Result<(Self, Self), TrainError> {
        let learnt = self.part(false);
        if learnt.problems.is_empty() {
            return Err(TrainError::OnlyKept { problems: self.problems() });
        }
        Ok((learnt, self.part(true)))
    }

    /// The problems that are kept for judging, or all others. Related hardware is split, too.
    fn part(&self, kept: bool) -> Self {
        let of = |problems: &[Arc<TrainingProblem>]| {
            problems.iter().filter(|problem| is_kept(&problem.problem) == kept).cloned().collect()
        };
        Self {
            problems: of(&self.problems),
            others: of(&self.others),
            related: self.related.iter().map(|set| set.part(kept)).collect(),
            without_kept: !kept,
            ..self.clone()
        }
    }

    /// The method with most timings among [`Self::others`].
    pub fn second_method(&self) -> Option<Method> {
        let mut counts: BTreeMap<Method, usize> = BTreeMap::new();
        for problem in self.others() {
            *counts.entry(problem.method).or_default() += problem.timings.len();
        }
        counts.into_iter().max_by_key(|&(_, count)| count).map(|(method, _)| method)
    }

    /// The ops in the training data, in order.
    pub fn ops(&self) -> Vec<Op> {
        let ops: BTreeSet<Op> = self.predictable().map(|problem| problem.op).collect();
        ops.into_iter().collect()
    }

    /// The input types in the training data, in order.
    pub fn dtypes(&self) -> Vec<DType> {
        let dtypes: BTreeSet<DType> = self.predictable().map(|problem| problem.a_dtype).collect();
        dtypes.into_iter().collect()
    }

    /// The digest of hardware, method and every timing. It does not matter how the timings were spread
    /// over datasets.
    pub fn digest(&self) -> Digest {
        let mut hash = Sha256::new();
        hash.update(format!("{}\n{}\n", self.hardware.slug, self.method));
        for config in self.configs.iter() {
            hash.update(format!("{}\n", config.canonical()));
        }
        for related in &self.related {
            hash.update(format!("related {}\n", related.digest()));
        }
        for problem in self.iter().chain(self.others()) {
            let TrainingProblem { problem: asked, method, timings, .. } = problem;
            hash.update(format!("{} {method} {}\n", asked.canonical(), timings.len()));
            hash.update(problem.library_us.unwrap_or(0.0).to_bits().to_le_bytes());
            for timed in &problem.timings {
                hash.update(timed.config.0.to_le_bytes());
                hash.update(timed.us.to_bits().to_le_bytes());
            }
        }
        Digest::from_hash(hash.finalize().into())
    }
}
