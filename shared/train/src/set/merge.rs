//! Merges datasets into one training set.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use diode_core::hardware::{Facts, Hardware};
use diode_core::stats::median;
use diode_core::{Config, ConfigDictionary, ConfigIndex, Dataset, Invalid, Method, Problem, Solution};
use diode_model::features::{ProblemFeatures, featured_tile};

use super::{TimedConfig, TrainingProblem, TrainingSet};
use crate::TrainError;
use crate::left_out::LeftOut;

pub(super) fn merge(datasets: &[Dataset], wanted: Option<Method>) -> Result<TrainingSet, TrainError> {
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
