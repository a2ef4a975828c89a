//! What datasets hold.

mod groups;
mod words;

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;
use diode_core::{Config, Dataset, Problem, Solution, Tflops};
use serde::Serialize;

use super::datasets;
use crate::arguments::whole;
use crate::output;
use groups::{Group, groups};

/// Count what datasets hold and show their fastest configs
///
/// Per operator, input type and method: problems, timings, failures and their
/// reasons, the best rate and its share of the roofline; where the dataset says
/// it, how much repeats spread and how often the library beats every Triton config.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  diode stats cpu.msgpack.zst")]
pub(crate) struct Stats {
    /// Datasets to read, in any format, or folders of datasets
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// How many problems to show, the fastest first
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = whole::<usize>)]
    top: usize,

    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    format: String,
    groups: Vec<Group>,
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

impl Stats {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let (mut formats, mut datasets) = (BTreeSet::new(), Vec::new());
        for decoded in datasets::decode(&self.files, &[])? {
            formats.insert(decoded.format.to_string());
            datasets.extend(decoded.datasets);
        }
        let mut fastest: Vec<Fastest> = datasets
            .iter()
            .flat_map(|dataset| dataset.solutions.iter().filter_map(|s| Fastest::of(dataset, s)))
            .collect();
        fastest.sort_by(|a, b| b.tflops.total_cmp(&a.tflops));
        fastest.truncate(self.top);
        let format = formats.into_iter().collect::<Vec<_>>().join(", ");
        let report = Report { format, groups: groups(&datasets), fastest };
        if self.json { output::json(&report) } else { output::text_out(&words::report(&report)) }
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
