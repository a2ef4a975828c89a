//! Statistics about datasets.

mod groups;
pub(crate) mod quality;
mod words;

use diode_core::{Config, Dataset, Problem, Solution, Tflops};
use serde::Serialize;

use groups::{SolutionGroup, groups};

/// What `stats` prints as JSON.
#[derive(Serialize)]
pub(crate) struct Report {
    format: String,
    groups: Vec<SolutionGroup>,
    fastest: Vec<Fastest>,
}

/// The best config of one problem.
#[derive(Serialize)]
struct Fastest {
    hardware: String,
    problem: Problem,
    config: Config,
    time_us: f64,
    tflops: f64,
}

impl Report {
    /// The report on datasets that were read in these formats, with the `top` fastest problems.
    pub(crate) fn of(format: String, datasets: &[Dataset], top: usize) -> Self {
        let mut fastest: Vec<Fastest> = datasets
            .iter()
            .flat_map(|dataset| dataset.solutions.iter().filter_map(|s| Fastest::of(dataset, s)))
            .collect();
        fastest.sort_by(|a, b| b.tflops.total_cmp(&a.tflops));
        fastest.truncate(top);
        Self { format, groups: groups(datasets), fastest }
    }

    pub(crate) fn in_words(&self) -> String {
        words::report(self)
    }
}

impl Fastest {
    /// `None` if every config of the problem failed.
    fn of(dataset: &Dataset, solution: &Solution) -> Option<Self> {
        let row = solution.times.fastest()?;
        let time = solution.times.nanos(row).micros();
        Some(Self {
            hardware: dataset.hardware.slug.to_string(),
            problem: solution.problem.clone(),
            config: *dataset.configs.get(solution.configs[row]),
            time_us: time.0,
            tflops: Tflops::from_work(solution.problem.flops(), time).0,
        })
    }
}
