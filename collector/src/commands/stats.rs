use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use diode_core::{Config, Dataset, Op, Problem, Solution, Tflops};
use serde::Serialize;

use crate::output;

/// Count what a dataset holds and show its fastest configs
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  diode stats cpu.msgpack.zst")]
pub(crate) struct Stats {
    /// Dataset to read, in any format
    file: PathBuf,

    /// How many problems to show, the fastest first
    #[arg(long, default_value_t = 5, value_name = "N")]
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

/// One op on one hardware.
#[derive(Serialize)]
struct Group {
    hardware: String,
    op: Op,
    problems: usize,
    timings: usize,
    failures: usize,
    best_tflops: Option<f64>,
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
        let decoded = diode_formats::read_file(&self.file)?;
        let mut fastest: Vec<Fastest> = decoded
            .datasets
            .iter()
            .flat_map(|dataset| dataset.solutions.iter().filter_map(|s| Fastest::of(dataset, s)))
            .collect();
        fastest.sort_by(|a, b| b.tflops.total_cmp(&a.tflops));
        fastest.truncate(self.top);
        let report = Report {
            format: decoded.format.to_string(),
            groups: decoded.datasets.iter().flat_map(groups).collect(),
            fastest,
        };
        if self.json { output::json(&report) } else { output::text_out(&in_words(&report)) }
    }
}

fn groups(dataset: &Dataset) -> Vec<Group> {
    let mut by_op: BTreeMap<Op, Group> = BTreeMap::new();
    for solution in &dataset.solutions {
        let op = solution.problem.op;
        let group = by_op.entry(op).or_insert_with(|| Group {
            hardware: dataset.hardware.slug.to_string(),
            op,
            problems: 0,
            timings: 0,
            failures: 0,
            best_tflops: None,
        });
        group.problems += 1;
        group.timings += solution.configs.len();
        group.failures += solution.failures.len();
        if let Some(best) = Fastest::of(dataset, solution) {
            group.best_tflops = Some(group.best_tflops.map_or(best.tflops, |t| t.max(best.tflops)));
        }
    }
    by_op.into_values().collect()
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

fn in_words(report: &Report) -> String {
    let group = |g: &Group| {
        let best = g.best_tflops.map_or("none".to_owned(), output::rate);
        let counts = [g.problems, g.timings, g.failures].map(|count| count.to_string());
        [g.hardware.clone(), g.op.to_string()].into_iter().chain(counts).chain([best]).collect()
    };
    let fastest = |f: &Fastest| {
        let p = &f.problem;
        vec![
            f.hardware.clone(),
            p.op.to_string(),
            p.a_dtype.to_string(),
            f.config.label(),
            p.dims(),
            output::duration(f.time_us),
            output::rate(f.tflops),
        ]
    };
    let groups: Vec<Vec<String>> = report.groups.iter().map(group).collect();
    let rows: Vec<Vec<String>> = report.fastest.iter().map(fastest).collect();
    let summary =
        output::table(&["hardware", "op", "problems", "timings", "failures", "best rate"], &groups, 2);
    let header = ["hardware", "op", "dtype", "best config", "M×N×K", "time", "rate"];
    format!("Format: {}\n\n{summary}\n{}", report.format, output::table(&header, &rows, 4))
}
