//! Builds datasets from rows in any order.

use std::collections::HashMap;

use diode_core::ids::HardwareSlug;
use diode_core::{
    ConfigDictionary, ConfigIndex, Dataset, Failure, Method, Problem, Provenance, Solution, TimeColumn,
};

use super::Cell;
use super::row::Row;
use crate::limits::{
    MAX_CONFIGS, MAX_CONFIGS_PER_FILE, MAX_DATASETS, MAX_PROBLEMS_PER_FILE, MAX_TIMINGS_PER_FILE,
    MAX_TIMINGS_PER_PROBLEM, too_many, too_many_timings,
};
use crate::rows::{SUBJECT, WIDTH, at};

/// Datasets under construction.
#[derive(Default)]
pub(super) struct Rows {
    datasets: Vec<Dataset>,
    numbers: HashMap<(u64, HardwareSlug, String), usize>,
    open: Vec<OpenSolution>,
    solutions: HashMap<(usize, u64, Problem, Method), usize>,
    /// The cells of the previous row that name its solution, and that solution's place.
    last: Option<(Vec<Held>, usize)>,
    timings: usize,
    /// The number of configs, over all datasets.
    configs: usize,
}

/// A solution that may still get more rows.
struct OpenSolution {
    dataset: usize,
    problem: Problem,
    method: Method,
    configs: Vec<ConfigIndex>,
    millis: Vec<f64>,
    minimum_ns: Vec<Option<u64>>,
    spread_ns: Vec<Option<u64>>,
    repeats: Vec<Option<u32>>,
    failures: Vec<Failure>,
}

/// A cell that owns its text, so that it can be compared with the next row's.
#[derive(PartialEq)]
enum Held {
    Empty,
    Text(Box<str>),
    Number(u64),
    Flag(bool),
    Real(f64),
}

impl Held {
    fn new(cell: &Cell<'_>) -> Self {
        match *cell {
            Cell::Empty => Self::Empty,
            Cell::Text(text) => Self::Text(text.into()),
            Cell::Number(number) => Self::Number(number),
            Cell::Flag(flag) => Self::Flag(flag),
            Cell::Real(real) => Self::Real(real),
        }
    }

    fn holds(&self, cell: &Cell<'_>) -> bool {
        match (self, cell) {
            (Self::Empty, Cell::Empty) => true,
            (Self::Text(held), Cell::Text(text)) => **held == **text,
            (Self::Number(held), Cell::Number(number)) => held == number,
            (Self::Flag(held), Cell::Flag(flag)) => held == flag,
            (Self::Real(held), Cell::Real(real)) => held == real,
            _ => false,
        }
    }
}

impl Rows {
    pub(super) fn add(&mut self, row: &[Cell<'_>; WIDTH]) -> Result<(), String> {
        self.timings += 1;
        if self.timings > MAX_TIMINGS_PER_FILE {
            return Err(too_many_timings(MAX_TIMINGS_PER_FILE));
        }
        let place = self.solution(row)?;
        let open = &mut self.open[place];
        if open.configs.len() + open.failures.len() == MAX_TIMINGS_PER_PROBLEM {
            return Err(format!("more than {MAX_TIMINGS_PER_PROBLEM} timings of one problem"));
        }
        let row = Row(row);
        let dictionary = &mut self.datasets[open.dataset].configs;
        let known = dictionary.len();
        let config = dictionary.intern(row.config(open.problem.op)?);
        if dictionary.len() > MAX_CONFIGS {
            return Err(format!("more than {MAX_CONFIGS} distinct configs"));
        }
        self.configs += dictionary.len() - known;
        if self.configs > MAX_CONFIGS_PER_FILE {
            return Err(too_many("configs", MAX_CONFIGS_PER_FILE));
        }
        match row.outcome()? {
            Ok(millis) => {
                open.configs.push(config);
                open.millis.push(millis);
                open.minimum_ns.push(row.number(at!("minimum_ns"))?);
                open.spread_ns.push(row.number(at!("spread_ns"))?);
                open.repeats.push(row.small(at!("repeats"))?);
            }
            Err(reason) => open.failures.push(Failure { config, reason }),
        }
        Ok(())
    }

    /// The solution to which a row belongs.
    fn solution(&mut self, row: &[Cell<'_>; WIDTH]) -> Result<usize, String> {
        let subject = &row[..SUBJECT];
        if let Some((held, place)) = &self.last
            && held.iter().zip(subject).all(|(held, cell)| held.holds(cell))
        {
            return Ok(*place);
        }
        let held = subject.iter().map(Held::new).collect();
        let row = Row(row);
        let dataset = self.dataset(row)?;
        let (problem, method) = (row.problem()?, row.parse(at!("method"))?.unwrap_or(Method::Unspecified));
        let number = row.number(at!("solution"))?.unwrap_or(0);
        let next = self.open.len();
        let place = *self.solutions.entry((dataset, number, problem.clone(), method)).or_insert(next);
        if place == next {
            if next == MAX_PROBLEMS_PER_FILE {
                return Err(too_many("problems", MAX_PROBLEMS_PER_FILE));
            }
            self.open.push(OpenSolution {
                dataset,
                problem,
                method,
                configs: Vec::new(),
                millis: Vec::new(),
                minimum_ns: Vec::new(),
                spread_ns: Vec::new(),
                repeats: Vec::new(),
                failures: Vec::new(),
            });
        }
        self.last = Some((held, place));
        Ok(place)
    }

    fn dataset(&mut self, row: Row<'_>) -> Result<usize, String> {
        let hardware = row.hardware()?;
        let number = row.number(at!("dataset"))?.unwrap_or(0);
        let next = self.datasets.len();
        let key = (number, hardware.slug.clone(), hardware.name.clone());
        let place = *self.numbers.entry(key).or_insert(next);
        if place == next {
            if next == MAX_DATASETS {
                return Err(format!("more than {MAX_DATASETS} datasets; split the file"));
            }
            self.datasets.push(Dataset {
                hardware,
                provenance: Provenance::default(),
                configs: ConfigDictionary::default(),
                solutions: Vec::new(),
            });
        }
        Ok(place)
    }

    /// The datasets, each with its number in the file.
    pub(super) fn finish(self) -> Result<Vec<(u64, Dataset)>, String> {
        let mut datasets = self.datasets;
        for open in self.open {
            let dataset = open.dataset;
            let solution = open.close()?;
            let refuse = |invalid| format!("problem {}: {invalid}", solution.problem.canonical());
            solution.validate(&datasets[dataset].configs).map_err(refuse)?;
            datasets[dataset].solutions.push(solution);
        }
        let mut numbers = vec![0; datasets.len()];
        for ((number, ..), place) in self.numbers {
            numbers[place] = number;
        }
        Ok(numbers.into_iter().zip(datasets).collect())
    }
}

impl OpenSolution {
    fn close(self) -> Result<Solution, String> {
        let problem = self.problem;
        let refuse = |cause: String| format!("problem {}: {cause}", problem.canonical());
        let minimum_ns = all_or_none("minimum_ns", self.minimum_ns).map_err(refuse)?;
        let spread_ns = all_or_none("spread_ns", self.spread_ns).map_err(refuse)?;
        let repeats = all_or_none("repeats", self.repeats).map_err(refuse)?;
        let times = TimeColumn::from_millis(self.millis).map_err(|invalid| refuse(invalid.to_string()))?;
        Ok(Solution {
            times,
            minimum_ns,
            spread_ns,
            repeats,
            method: self.method,
            configs: self.configs,
            failures: self.failures,
            problem,
        })
    }
}

fn all_or_none<T: Copy>(column: &str, values: Vec<Option<T>>) -> Result<Option<Vec<T>>, String> {
    if values.iter().all(Option::is_none) {
        return Ok(None);
    }
    let total = values.len();
    let values: Vec<T> = values.into_iter().flatten().collect();
    if values.len() < total {
        return Err(format!(
            "{column}: got {} values for {total} timings, expected all or none",
            values.len()
        ));
    }
    Ok(Some(values))
}
