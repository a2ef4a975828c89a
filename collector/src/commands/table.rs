use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, Subcommand};
use diode_core::hardware::{Hardware, Vendor};
use diode_core::ids::HardwareSlug;
use diode_core::table::inductor::{InductorOptions, PythonNumber, Scalars, TorchVersion};
use diode_core::table::{Nearest, TableConfig, TableFormat};
use diode_core::{Config, ConfigFields, Invalid, Method, Micros, Problem, Tflops};
use serde::Serialize;

use crate::commands::prediction::layouts;
use crate::failure::Usage;
use crate::input::arguments::at_least_one;
use crate::input::datasets;
use crate::input::problems::ProblemArgs;
use crate::input::tables::{self, read_tables};
use crate::output::log::Progress;
use crate::output::{self, files};
use diode_workloads::served::Reader;

/// Make a table of the best known configs of each problem, or look one up
///
/// A table in diode's format is JSON with one object per problem, in order of
/// preference; edit it as you like and give it to this command again. torch-diode's lookup
/// tables are read too. Inductor's format is the value of torch._inductor.config.lookup_table.table.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Example:\n  diode table h200.msgpack.zst --output table.json --top 5\n  \
                  diode table table.json --output lookup.json --format inductor\n  \
                  diode table lookup table.json 512x4096x4096 --nearest"
)]
pub(crate) struct Table {
    #[command(subcommand)]
    command: Option<TableCommand>,

    /// Datasets, folders of datasets, or one table to edit further
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// File to write
    #[arg(long, value_name = "FILE", required = true)]
    output: Option<PathBuf>,

    /// Keep only the best N configs of each problem [default: all]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    top: Option<usize>,

    /// Which of the hardware in the files
    #[arg(long, value_name = "SLUG")]
    hardware: Option<HardwareSlug>,

    /// Which of the methods of timing in the files [default: the one with most timings]
    #[arg(long)]
    method: Option<Method>,

    /// Which form to write: diode, or inductor for PyTorch's lookup table
    #[arg(long, default_value = "diode")]
    format: TableFormat,

    /// Replace the output if it exists
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    inductor: InductorArgs,
}

#[derive(Debug, Subcommand)]
enum TableCommand {
    Lookup(Lookup),
}

/// They need `--format inductor`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Inductor's format")]
struct InductorArgs {
    /// Leave the device's name out of the keys, so that they apply to every device
    #[arg(long)]
    device_agnostic: bool,

    /// Void the table for any other version of torch than this one: 2.11.0
    #[arg(long, value_name = "VERSION")]
    torch: Option<TorchVersion>,

    /// The alpha of addmm and baddbmm as the model's code gives it; 1 and 1.0 differ [default: 1]
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    alpha: Option<PythonNumber>,

    /// The beta of addmm and baddbmm as the model's code gives it; 1 and 1.0 differ [default: 1]
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    beta: Option<PythonNumber>,
}

impl InductorArgs {
    fn any(&self) -> bool {
        self.device_agnostic || self.torch.is_some() || self.alpha.is_some() || self.beta.is_some()
    }

    fn options(self) -> InductorOptions {
        let usual = Scalars::default();
        InductorOptions {
            device_agnostic: self.device_agnostic,
            torch: self.torch,
            scalars: Scalars {
                alpha: self.alpha.unwrap_or(usual.alpha),
                beta: self.beta.unwrap_or(usual.beta),
            },
        }
    }
}

impl Table {
    pub(crate) fn run(mut self) -> anyhow::Result<()> {
        if let Some(TableCommand::Lookup(lookup)) = self.command {
            return lookup.run();
        }
        let Some(path) = self.output.take() else { return Err(Usage::new("--output: got none").into()) };
        Usage::refuse_if(
            self.format == TableFormat::Diode && self.inductor.any(),
            "--device-agnostic, --torch, --alpha and --beta are for --format inductor only",
        )?;
        files::check_may_write(&path, self.force)?;
        files::check_not_input(&path, &self.files)?;
        let table = self.read()?;
        let configs: usize = table.iter().map(|(_, configs)| configs.len()).sum();
        let (problems, slug, method) = (table.len(), table.hardware().slug.clone(), table.method());
        let text = match self.format {
            TableFormat::Diode => serde_json::to_string_pretty(&table)?,
            TableFormat::Inductor => {
                let written = table.to_inductor(&self.inductor.options())?;
                let left_out = table.beyond_inductor();
                if left_out > 0 {
                    let problems = output::count(left_out, "problem");
                    say!("note: left out {problems} that Inductor looks up nowhere: scaled or grouped");
                }
                serde_json::to_string_pretty(&written)?
            }
        };
        files::write(&path, (text + "\n").as_bytes())?;
        output::text_out(&format!(
            "{}: {}, {} on {slug} ({method})\n",
            path.display(),
            output::count(problems, "problem"),
            output::count(configs, "config"),
        ))?;
        match self.format {
            TableFormat::Diode => {
                if let Some((p, _)) = table.iter().find(|(problem, _)| problem.op.is_plain()) {
                    let words = format!("{} {} {} {}", p.op, p.dims(), p.a_dtype, layouts(p));
                    next!("diode table lookup {} '{words}' --nearest", path.display());
                }
            }
            TableFormat::Inductor => {
                next!(
                    "torch._inductor.config.lookup_table.table takes it, or torch_diode.install(table={:?})",
                    path
                );
            }
        }
        Ok(())
    }

    fn read(&self) -> anyhow::Result<diode_core::Table> {
        if self.files.iter().any(|file| tables::is_table(file)) {
            return self.read_table();
        }
        let datasets = datasets::read(&self.files)?;
        let datasets = self.of_one_hardware(datasets, |dataset| &dataset.hardware)?;
        let table = diode_core::Table::from_datasets(&datasets, self.method, self.top)?;
        if table.is_empty() {
            bail!("no problem has a time: every config failed");
        }
        Ok(table)
    }

    fn read_table(&self) -> anyhow::Result<diode_core::Table> {
        let [file] = self.files.as_slice() else {
            let files = self.files.len();
            return Err(Usage::new(format!("files: got a table among {files}, expected it alone")).into());
        };
        let tables = self.of_one_hardware(read_tables(file)?, diode_core::Table::hardware)?;
        let names: Vec<&str> = tables.iter().map(|table| table.hardware().name.as_str()).collect();
        if names.len() > 1 {
            bail!("{}: got one hardware under {}, expected one name", file.display(), names.join(" and "));
        }
        let Some(table) = tables.into_iter().next().filter(|table| !table.is_empty()) else {
            bail!("{}: no problem has a config that can compute it", file.display());
        };
        if let Some(wanted) = self.method.filter(|wanted| *wanted != table.method()) {
            return Err(no_such("method", wanted, &table.method().to_string()).into());
        }
        Ok(match self.top {
            Some(top) => table.top(top),
            None => table,
        })
    }

    /// Keeps the items of the requested hardware. If none was requested, all items must be of one
    /// hardware.
    fn of_one_hardware<T>(&self, mut all: Vec<T>, of: impl Fn(&T) -> &Hardware) -> anyhow::Result<Vec<T>> {
        let slugs: BTreeSet<String> = all.iter().map(|one| of(one).slug.to_string()).collect();
        if let Some(wanted) = &self.hardware {
            all.retain(|one| of(one).slug == *wanted);
            if all.is_empty() {
                let there: Vec<String> = slugs.into_iter().collect();
                return Err(no_such("hardware", wanted, &there.join(" or ")).into());
            }
        } else if slugs.len() > 1 {
            let slugs: Vec<String> = slugs.into_iter().collect();
            bail!("hardware: got {}, expected one; choose with --hardware", slugs.join(" and "));
        }
        Ok(all)
    }
}

fn no_such(what: &str, wanted: impl std::fmt::Display, there: &str) -> Invalid {
    Invalid::new(what, format_args!("`{wanted}`"), format!("{there}, as there is"))
}

/// Show a table's best configs for problems
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  diode table lookup table.json 512x4096x4096 --nearest")]
struct Lookup {
    /// Table in diode's format, or torch-diode's lookup table
    #[arg(value_name = "FILE")]
    table: PathBuf,

    /// For a problem that is not in the table, let the nearest ones vote
    #[arg(long)]
    nearest: bool,

    /// How many configs to show
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = at_least_one)]
    top: usize,

    /// Print one JSON document
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    asked: ProblemArgs,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Found {
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
        let mut tables = read_tables(&self.table)?;
        let (Some(table), true) = (tables.pop(), tables.is_empty()) else {
            let path = self.table.display();
            bail!(
                "{path}: expected a table of one hardware; `diode table {path} --hardware SLUG --output …` makes one"
            );
        };
        let problems = self.asked.problems(Some(table.hardware()), Reader::Inductor)?;
        let table = without_limits_of_gpus(table)?;
        let problems = Progress::through(problems.into_iter(), "problems");
        let answers = problems.map(|problem| self.answer(&table, problem));
        let answers = answers.collect::<anyhow::Result<Vec<_>>>()?;
        match answers.as_slice() {
            [alone] if self.json => output::json(alone),
            several if self.json => output::json(&several),
            several => {
                let texts = several.iter().map(|answer| in_words(answer, &table));
                output::text_out(&texts.collect::<anyhow::Result<Vec<_>>>()?.join("\n"))
            }
        }
    }

    fn answer(&self, table: &diode_core::Table, problem: Problem) -> anyhow::Result<Found> {
        let top = self.top;
        if let Some(configs) = table.lookup(&problem) {
            let configs = configs.iter().take(top).map(Listed::measured).collect();
            return Ok(Found { problem, exact: true, configs, neighbours: Vec::new() });
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
        Ok(Found { problem, exact: false, configs, neighbours })
    }
}

/// The table without a CPU's facts: a CPU has no shared memory that a tile could be too large for.
fn without_limits_of_gpus(table: diode_core::Table) -> Result<diode_core::Table, Invalid> {
    if table.hardware().vendor != Vendor::Cpu {
        return Ok(table);
    }
    let hardware = Hardware { facts: None, ..table.hardware().clone() };
    let mut bare = diode_core::Table::new(hardware, table.method());
    for (problem, configs) in table.iter() {
        bare.insert(problem.clone(), configs.to_vec())?;
    }
    Ok(bare)
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

/// A neighbour's name: its sizes, its op and type where they differ from the asked problem's, and its layouts
/// and bias where they are unusual.
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

fn in_words(answer: &Found, table: &diode_core::Table) -> anyhow::Result<String> {
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
