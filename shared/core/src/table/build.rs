//! Makes tables from datasets.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::{Table, TableConfig, check_even_k};
use crate::error::Invalid;
use crate::hardware::Hardware;
use crate::stats::median;
use crate::{Config, Dataset, Method, Micros, Problem, Solution};

impl Table {
    /// A table of the `top` best configs of every problem, or of all configs, in order of time.
    ///
    /// All datasets must be of one hardware. Methods are never mixed: without a `method`, the method with
    /// most timings is taken. A config's time is the median over the solutions that timed it. Problems
    /// without a time are left out.
    pub fn from_datasets(
        datasets: &[Dataset],
        method: Option<Method>,
        top: Option<usize>,
    ) -> Result<Self, Invalid> {
        let hardware = common_hardware(datasets)?;
        let method = choose_method(datasets, method)?;
        let mut timed: BTreeMap<&Problem, BTreeMap<Config, Vec<f64>>> = BTreeMap::new();
        for dataset in datasets {
            for solution in dataset.solutions.iter().filter(|solution| solution.method == method) {
                let times = timed.entry(&solution.problem).or_default();
                for (config, time) in medians(dataset, solution) {
                    times.entry(config).or_default().push(time);
                }
            }
        }
        let mut table = Self::new(hardware, method);
        for (problem, times) in timed {
            let times = times.into_iter();
            let times = times.filter_map(|(config, mut times)| Some((config, Micros(median(&mut times)?))));
            table.insert_best(problem.clone(), times, top)?;
        }
        Ok(table)
    }

    /// Adds a problem with the `top` best of these configs, or with all of them. Configs with a wrong
    /// `EVEN_K` are left out. A problem without any right config is not added.
    pub fn insert_best(
        &mut self,
        problem: Problem,
        times: impl IntoIterator<Item = (Config, Micros)>,
        top: Option<usize>,
    ) -> Result<(), Invalid> {
        let timed = |(config, time)| TableConfig { config, time: Some(time) };
        let usable = times.into_iter().filter(|(config, _)| check_even_k(config, &problem).is_ok());
        let mut configs: Vec<TableConfig> = usable.map(timed).collect();
        // The sort is stable, so configs with equal times stay in config order.
        configs.sort_by(|a, b| time(a).total_cmp(&time(b)));
        configs.truncate(top.unwrap_or(usize::MAX));
        if configs.is_empty() { Ok(()) } else { self.insert(problem, configs) }
    }
}

fn time(config: &TableConfig) -> f64 {
    config.time.map_or(f64::INFINITY, |time| time.0)
}

impl Table {
    /// A table of chosen configs without times, the preferred one first.
    ///
    /// A config that is listed twice counts once. Configs with a wrong `EVEN_K` are left out, and so are
    /// problems without any right config.
    pub fn from_choices(
        hardware: Hardware,
        choices: impl IntoIterator<Item = (Problem, Vec<Config>)>,
    ) -> Result<Self, Invalid> {
        let mut table = Self::new(hardware, Method::Unspecified);
        for (problem, configs) in choices {
            let mut kept = Vec::with_capacity(configs.len());
            let mut seen = HashSet::with_capacity(configs.len());
            for config in configs {
                if check_even_k(&config, &problem).is_ok() && seen.insert(config) {
                    kept.push(TableConfig { config, time: None });
                }
            }
            if !kept.is_empty() {
                table.insert(problem, kept)?;
            }
        }
        Ok(table)
    }
}

/// The hardware of all datasets, which must be the same. It is taken from a dataset that has its facts, if
/// there is one.
fn common_hardware(datasets: &[Dataset]) -> Result<Hardware, Invalid> {
    let slugs: BTreeSet<&str> = datasets.iter().map(|dataset| dataset.hardware.slug.as_str()).collect();
    if slugs.len() > 1 {
        let slugs = slugs.into_iter().collect::<Vec<_>>().join(", ");
        return Err(Invalid::new("hardware", slugs, "datasets of one hardware"));
    }
    let described = datasets.iter().find(|dataset| dataset.hardware.facts.is_some());
    let dataset = described.or(datasets.first());
    let dataset = dataset.ok_or_else(|| Invalid::new("datasets", "none", "at least one"))?;
    Ok(dataset.hardware.clone())
}

/// The wanted method, or else the method with most timings.
fn choose_method(datasets: &[Dataset], wanted: Option<Method>) -> Result<Method, Invalid> {
    let mut counts: BTreeMap<Method, usize> = BTreeMap::new();
    for solution in datasets.iter().flat_map(|dataset| &dataset.solutions) {
        *counts.entry(solution.method).or_default() += solution.configs.len();
    }
    match wanted {
        Some(wanted) if !counts.contains_key(&wanted) => {
            let found = counts.keys().map(ToString::to_string).collect::<Vec<_>>().join(" or ");
            Err(Invalid::new("method", format_args!("`{wanted}`"), format!("{found}, as there is")))
        }
        Some(wanted) => Ok(wanted),
        None => counts
            .into_iter()
            .max_by_key(|&(_, timings)| timings)
            .map(|(method, _)| method)
            .ok_or_else(|| Invalid::new("datasets", "no problem", "at least one")),
    }
}

/// One time in µs for each config of a solution.
fn medians(dataset: &Dataset, solution: &Solution) -> BTreeMap<Config, f64> {
    let mut repeats: BTreeMap<Config, Vec<f64>> = BTreeMap::new();
    for (index, time) in solution.configs.iter().zip(solution.times.iter_nanos()) {
        repeats.entry(*dataset.configs.get(*index)).or_default().push(time.micros().0);
    }
    repeats.into_iter().filter_map(|(config, mut times)| Some((config, median(&mut times)?))).collect()
}
