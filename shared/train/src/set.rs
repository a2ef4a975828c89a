//! The data that a model is trained on: merged timings of one hardware by one method.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use diode_core::hardware::{Facts, Hardware};
use diode_core::ids::{Digest, HardwareSlug};
use diode_core::stats::median;
use diode_core::{
    Config, ConfigDictionary, ConfigIndex, DType, Dataset, Invalid, Method, Op, Problem, Solution, is_kept,
    mark_of_size,
};
use diode_model::features::{ProblemFeatures, featured_tile};
use sha2::{Digest as _, Sha256};

use crate::TrainError;

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
        merge(datasets, method)
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

    /// The problems that are wanted, to judge a model by.
    pub fn only(&self, wanted: impl Fn(&Problem) -> bool) -> Self {
        let problems = self.problems.iter().filter(|problem| wanted(&problem.problem)).cloned().collect();
        Self { problems, others: Vec::new(), ..self.clone() }
    }

    /// At most so many of the problems, evenly spread.
    pub fn sample(&self, most: usize) -> Self {
        let step = self.problems.len().div_ceil(most.max(1)).max(1);
        Self { problems: self.problems.iter().step_by(step).cloned().collect(), ..self.clone() }
    }

    /// The problems of this set and of another one that was split from the same.
    pub fn joined(&self, other: &Self) -> Self {
        let mut problems = [self.problems.as_slice(), &other.problems].concat();
        problems.sort_by(|a, b| a.problem.cmp(&b.problem));
        Self { problems, ..self.clone() }
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

    /// The sizes of all problems by any method, as [`mark_of_size`], in order.
    pub fn sizes(&self) -> Vec<u32> {
        let all: BTreeSet<u32> =
            self.iter().chain(self.others()).map(|one| mark_of_size(&one.problem)).collect();
        all.into_iter().collect()
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

fn merge(datasets: &[Dataset], wanted: Option<Method>) -> Result<TrainingSet, TrainError> {
    let (hardware, facts) = common_hardware(datasets)?;
    for dataset in datasets {
        dataset.configs.iter().try_for_each(Config::validate)?;
        dataset.solutions.iter().try_for_each(|solution| solution.validate(&dataset.configs))?;
    }
    let method = choose_method(datasets, wanted)?;
    let mut left_out = LeftOut::default();
    let configs: BTreeSet<Config> = datasets
        .iter()
        .flat_map(|dataset| dataset.configs.iter())
        .filter(|config| featured_tile(config).is_ok())
        .copied()
        .collect();
    let configs: ConfigDictionary = configs.into_iter().collect();

    let mut gathered: BTreeMap<(Problem, Method, Rounds), Gathered> = BTreeMap::new();
    for dataset in datasets {
        // Maps the dataset's indices of configs to the set's indices. The library and kernels
        // without features have no index in the set.
        let indices: Vec<Option<ConfigIndex>> = dataset.configs.iter().map(|c| configs.index_of(c)).collect();
        for solution in &dataset.solutions {
            if !solution.problem.op.is_plain() {
                left_out.served += solution.configs.len();
                continue;
            }
            if ProblemFeatures::new(&facts, &solution.problem).is_none() {
                left_out.no_peak += solution.configs.len();
                continue;
            }
            if solution.method != method {
                left_out.other_methods += solution.configs.len();
            }
            for rounds in [false, true] {
                let into = gathered.entry((solution.problem.clone(), solution.method, rounds)).or_default();
                left_out.no_features += into.take(solution, dataset, &indices, rounds)?;
            }
        }
    }
    let (problems, others): (Vec<_>, Vec<_>) = gathered
        .into_iter()
        .filter_map(|((problem, method, _), all)| all.finish(problem, method))
        .map(Arc::new)
        .partition(|problem| problem.method == method);
    if problems.is_empty() {
        return Err(TrainError::Empty { left_out });
    }
    Ok(TrainingSet {
        hardware,
        facts,
        method,
        configs: Arc::new(configs),
        problems,
        others,
        related: Vec::new(),
        left_out,
        without_kept: false,
    })
}

/// The hardware of all datasets, which must be the same. It is taken from a dataset that holds the
/// hardware's facts.
fn common_hardware(datasets: &[Dataset]) -> Result<(Hardware, Facts), TrainError> {
    let first = &datasets.first().ok_or(TrainError::Empty { left_out: LeftOut::default() })?.hardware;
    if let Some(other) = datasets.iter().find(|d| d.hardware.slug != first.slug) {
        return Err(TrainError::MixedHardware {
            first: first.slug.clone(),
            other: other.hardware.slug.clone(),
        });
    }
    let described = datasets.iter().find_map(|d| d.hardware.facts.map(|facts| (d.hardware.clone(), facts)));
    let (hardware, facts) = described.ok_or_else(|| TrainError::NoFacts { hardware: first.slug.clone() })?;
    hardware.validate()?;
    Ok((hardware, facts))
}

/// The wanted method, or else the method with most timings.
fn choose_method(datasets: &[Dataset], wanted: Option<Method>) -> Result<Method, TrainError> {
    let mut counts: BTreeMap<Method, usize> = BTreeMap::new();
    for solution in datasets.iter().flat_map(|dataset| &dataset.solutions) {
        *counts.entry(solution.method).or_default() += solution.configs.len();
    }
    match wanted {
        Some(wanted) if counts.contains_key(&wanted) => Ok(wanted),
        Some(wanted) if !counts.is_empty() => {
            let found = counts.keys().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            Err(TrainError::NoSuchMethod { wanted, found })
        }
        _ => counts
            .into_iter()
            .max_by_key(|&(_, count)| count)
            .map(|(method, _)| method)
            .ok_or(TrainError::Empty { left_out: LeftOut::default() }),
    }
}

/// Whether float32 is rounded to TF32. With and without rounding are two computations, so a problem that was timed
/// in both ways becomes two training problems.
type Rounds = bool;

/// The timings of one problem, gathered while datasets are read.
#[derive(Default)]
struct Gathered {
    timings: Vec<TimedConfig>,
    library_us: Vec<f64>,
}

impl Gathered {
    /// Adds the timings of a solution that round, or those that do not. Returns how many of them cannot be learnt
    /// from.
    fn take(
        &mut self,
        solution: &Solution,
        dataset: &Dataset,
        indices: &[Option<ConfigIndex>],
        rounds: Rounds,
    ) -> Result<usize, TrainError> {
        let mut unused = 0;
        for (index, time) in solution.configs.iter().zip(solution.times.iter_nanos()) {
            let config = dataset.configs.get(*index);
            if config.rounds(&solution.problem) != rounds {
                continue;
            }
            let us = time.micros().0;
            if !(us.is_finite() && us > 0.0) {
                return Err(Invalid::new("time", format_args!("{us} µs"), "a finite time above 0").into());
            }
            match indices[index.0 as usize] {
                Some(config) => self.timings.push(TimedConfig { config, us }),
                None if config.is_library() => self.library_us.push(us),
                None => unused += 1,
            }
        }
        Ok(unused)
    }

    /// One time for each config, with the fastest first. `None` if there is nothing to learn from.
    fn finish(mut self, problem: Problem, method: Method) -> Option<TrainingProblem> {
        self.timings.sort_unstable_by_key(|timed| timed.config);
        let mut timings: Vec<TimedConfig> = self
            .timings
            .chunk_by(|a, b| a.config == b.config)
            .filter_map(|same| {
                let mut repeats: Vec<f64> = same.iter().map(|timed| timed.us).collect();
                Some(TimedConfig { config: same[0].config, us: median(&mut repeats)? })
            })
            .collect();
        timings.sort_unstable_by(|a, b| a.us.total_cmp(&b.us).then(a.config.cmp(&b.config)));
        (!timings.is_empty()).then(|| TrainingProblem {
            problem,
            method,
            timings,
            library_us: median(&mut self.library_us),
        })
    }
}

impl TrainingSet {
    /// Adds timings of other hardware by the set's method. Models learn from them with the facts of that
    /// hardware, but are not judged by them.
    pub fn with_related(mut self, datasets: Vec<Dataset>) -> Result<Self, TrainError> {
        let mut by_hardware: BTreeMap<HardwareSlug, Vec<Dataset>> = BTreeMap::new();
        for dataset in datasets {
            by_hardware.entry(dataset.hardware.slug.clone()).or_default().push(dataset);
        }
        for (slug, datasets) in by_hardware {
            if slug == self.hardware.slug {
                return Err(TrainError::RelatedIsTheSame { hardware: slug });
            }
            let mut related = Self::from_datasets(&datasets, Some(self.method))?;
            related.others.clear();
            self.related.push(related);
        }
        Ok(self)
    }

    /// The sets of other hardware.
    pub fn related(&self) -> &[Self] {
        &self.related
    }

    /// Every problem of the training, each with the set that has its facts and method.
    pub(crate) fn learnt_from(&self) -> impl Iterator<Item = (&Self, &TrainingProblem)> {
        let own = self.iter().chain(self.others()).map(move |problem| (self, problem));
        own.chain(self.related.iter().flat_map(|set| set.iter().map(move |problem| (set, problem))))
    }

    /// The problems whose times are by the set's own method.
    pub(crate) fn predictable(&self) -> impl Iterator<Item = &Problem> {
        self.learnt_from()
            .filter(|(_, learnt)| learnt.method == self.method)
            .map(|(_, learnt)| &learnt.problem)
    }
}

/// The numbers of timings that were given but cannot be learnt from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// Timings by another method than the set's. [`TrainingSet::others`](crate::TrainingSet::others)
    /// may have them.
    pub other_methods: usize,
    /// Timings of kernels without features.
    pub no_features: usize,
    /// Timings of input types for which the hardware has no known peak.
    pub no_peak: usize,
    /// Timings of scaled and grouped problems, which another part of a model learns
    /// ([`train_serving`](crate::train_serving)).
    pub served: usize,
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { other_methods, no_features, no_peak, served } = self;
        write!(
            f,
            "left out: {other_methods} timings taken by another method (which \
             training tells apart), {no_features} of kernels without features, {no_peak} of dtypes without a known peak"
        )?;
        if *served > 0 {
            write!(f, ", {served} of scaled and grouped problems (which another part of a model learns)")?;
        }
        Ok(())
    }
}
