use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use diode_core::table::{Nearest, TableConfig};
use diode_core::{Config, ConfigFields, Micros, Problem, Table, Tflops};
use serde::Serialize;

use crate::input::arguments::at_least_one;
use crate::input::problems::ProblemArgs;
use crate::input::tables::read_tables;
use crate::output;

/// Show what a table says of a problem
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode table lookup table.json --op mm --m 512 --n 4096 --k 4096 --dtype bfloat16 --nearest"
)]
pub(crate) struct Lookup {
    /// Table in diode's format, or torch-diode's lookup table
    #[arg(value_name = "FILE")]
    table: PathBuf,

    #[command(flatten)]
    problem: ProblemArgs,

    /// Where the problem is not in the table, take what the most similar ones advise
    #[arg(long)]
    nearest: bool,

    /// How many configs to show
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = at_least_one)]
    top: usize,

    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Answer {
    problem: Problem,
    /// Whether the table has exactly this problem.
    exact: bool,
    /// The configs, best first.
    configs: Vec<Listed>,
    /// The problems that the advice comes from, nearest first. Empty for an exact answer.
    neighbours: Vec<Near>,
}

#[derive(Serialize)]
struct Listed {
    #[serde(flatten)]
    config: ConfigFields,
    /// The measured time of exactly this problem.
    #[serde(skip_serializing_if = "Option::is_none")]
    time_us: Option<f64>,
    /// The logarithm of (expected time / best time).
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_loss: Option<f64>,
}

#[derive(Serialize)]
struct Near {
    problem: Problem,
    distance: f64,
}

impl Lookup {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let problem = self.problem.problem()?;
        let mut tables = read_tables(&self.table)?;
        let (Some(table), true) = (tables.pop(), tables.is_empty()) else {
            let path = self.table.display();
            bail!(
                "{path}: expected a table of one hardware; `diode table {path} --hardware SLUG --output …` makes one"
            );
        };
        let answer = self.answer(&table, problem)?;
        if self.json { output::json(&answer) } else { output::text_out(&in_words(&answer, &table)?) }
    }

    fn answer(&self, table: &Table, problem: Problem) -> anyhow::Result<Answer> {
        let top = self.top;
        if let Some(configs) = table.lookup(&problem) {
            let configs = configs.iter().take(top).map(Listed::measured).collect();
            return Ok(Answer { problem, exact: true, configs, neighbours: Vec::new() });
        }
        let name = named(&problem);
        if !self.nearest {
            bail!("{name}: not in the table; add --nearest to take what similar problems advise");
        }
        let Some(Nearest { candidates, neighbours }) = table.nearest(&problem, top) else {
            bail!("{name}: not in the table, and nothing in it runs the same kernels");
        };
        let configs = candidates
            .into_iter()
            .map(|c| Listed { config: c.config.into(), time_us: None, expected_loss: Some(c.expected_loss) })
            .collect();
        let neighbours =
            neighbours.into_iter().map(|n| Near { problem: n.problem, distance: n.distance }).collect();
        Ok(Answer { problem, exact: false, configs, neighbours })
    }
}

impl Listed {
    fn measured(entry: &TableConfig) -> Self {
        Self { config: entry.config.into(), time_us: entry.time.map(|time| time.0), expected_loss: None }
    }
}

/// The problem's name, such as `mm 512×4096×4096 bfloat16 (B in columns)`.
fn named(problem: &Problem) -> String {
    let name = format!("{} {} {}", problem.op, problem.dims(), problem.a_dtype);
    with_particulars(name, problem)
}

/// A neighbour's sizes, its op and type if the asked problem has others, and its layouts and bias
/// if they are unusual.
fn neighbour(near: &Problem, asked: &Problem) -> String {
    let mut name = near.dims();
    if near.op != asked.op {
        name = format!("{} {name}", near.op);
    }
    if near.a_dtype != asked.a_dtype {
        name = format!("{name} {}", near.a_dtype);
    }
    with_particulars(name, near)
}

fn with_particulars(name: String, problem: &Problem) -> String {
    let particulars = problem.particulars();
    if particulars.is_empty() { name } else { format!("{name} ({})", particulars.join(", ")) }
}

fn in_words(answer: &Answer, table: &Table) -> anyhow::Result<String> {
    let problem = &answer.problem;
    let mut rows = Vec::new();
    for (place, listed) in (1..).zip(&answer.configs) {
        let label = Config::try_from(listed.config.clone())?.label();
        let mut row = vec![label, place.to_string()];
        if answer.exact {
            let time = listed.time_us.map(Micros);
            row.push(time.map_or_else(String::new, |time| output::duration(time.0)));
            row.push(
                time.map_or_else(String::new, |time| {
                    output::rate(Tflops::from_work(problem.flops(), time).0)
                }),
            );
        } else {
            let loss = listed.expected_loss.unwrap_or(0.0);
            row.push(format!("{:+.1} %", loss.exp_m1() * 100.0));
        }
        rows.push(row);
    }
    let hardware = output::one_line(&table.hardware().name);
    let mut text = format!("{} on {hardware}\n\n", named(problem));
    if answer.exact {
        text += &output::table(&["config", "rank", "time", "rate"], &rows, 1);
    } else {
        text += &output::table(&["config", "rank", "expected over best"], &rows, 1);
        let near: Vec<String> =
            answer.neighbours.iter().map(|near| neighbour(&near.problem, problem)).collect();
        text += &format!("\nNot in the table; advised by its nearest problems: {}\n", near.join(", "));
    }
    Ok(text)
}
