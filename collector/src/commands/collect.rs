use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::{Args, FromArgMatches as _, ValueEnum};
use diode_core::space::{Space, SpaceName};
use diode_core::{FailureReason, Method, Problem};
use diode_formats::Format;

use super::collect_summary;
use super::old_flags::SearchMode;
use crate::arguments;
use crate::collection::Collection;
use crate::cpu;
use crate::failure::Usage;
use crate::interrupt::Interrupt;
use crate::measure::{Measured, measure};
use crate::node::{self, Node, gpus};
use crate::old_form;
use crate::output;
use crate::problem_source::{GeneratorArgs, read_shapeset};
use crate::progress::Progress;
use crate::worker::Supervisor;

/// Time every config of a space on many problems
///
/// Ctrl-C lets the problem in hand finish and keeps everything measured so far; a
/// second one drops that problem. `--resume` goes on later.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode collect --output cpu.msgpack.zst --num-shapes 20 --max-size 512 --budget 10m"
)]
pub(crate) struct Collect {
    /// File to write: .msgpack.zst, or with --lossy torch-diode's .json or .msgpack
    #[arg(long, value_name = "FILE")]
    output: PathBuf,

    /// Write torch-diode's .json or .msgpack, which hold times and no more
    #[arg(long)]
    pub(super) lossy: bool,

    /// Measure the problems of a torch-diode shape set (JSON) instead of drawing them
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = [
            "num_shapes", "log_normal", "power_of_two", "min_size", "max_size", "no_rectangular", "no_odd_sizes", "dtypes", "transformer", "convolution"
        ]
    )]
    shapeset: Option<PathBuf>,

    /// Which configs to time: default, inductor-exhaustive or full
    #[arg(long, alias = "search-space", default_value = "default", value_parser = arguments::space)]
    pub(super) space: SpaceName,

    /// What to measure on
    #[arg(long, alias = "device", value_enum, default_value_t = Backend::Auto)]
    pub(super) backend: Backend,

    /// Start no further problem after this time, such as 90s, 10m or 1h30m
    #[arg(long, value_name = "TIME", value_parser = parse_budget)]
    budget: Option<Duration>,

    /// Go on with an existing output: problems that are in it are skipped
    #[arg(long)]
    pub(super) resume: bool,

    #[command(flatten)]
    pub(super) generator: GeneratorArgs,

    #[command(flatten)]
    _search_mode: SearchMode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Backend {
    /// The best this build has on this node
    Auto,
    /// NVIDIA GPUs (not in this build yet)
    Cuda,
    /// AMD GPUs (not in this build yet)
    Hip,
    /// A blocked matrix multiplication on this CPU
    Cpu,
}

impl Collect {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        self.check_output()?;
        self.check_backend()?;
        old_form::mention_losses(&[&self.output]);
        let problems = self.problems()?;
        let tally = self.measure(&problems, &Interrupt::install()?)?;
        if tally.in_file == 0 && tally.stopped.is_none() {
            bail!("nothing was measured: {} of {} problems skipped", tally.skipped, problems.len());
        }
        Ok(())
    }

    /// A collection into a file as other commands start it: every flag has its default.
    pub(super) fn into_file(output: &Path) -> anyhow::Result<Self> {
        let arguments = ["collect".as_ref(), "--output".as_ref(), output.as_os_str()];
        let matches = Self::augment_args(clap::Command::new("collect")).try_get_matches_from(arguments)?;
        Ok(Self::from_arg_matches(&matches)?)
    }

    /// Measures given problems; returns how many the file holds then.
    pub(super) fn run_on(&self, problems: &[Problem], interrupt: &Interrupt) -> anyhow::Result<usize> {
        self.check_output()?;
        self.check_backend()?;
        Ok(self.measure(problems, interrupt)?.in_file)
    }

    fn measure(&self, problems: &[Problem], interrupt: &Interrupt) -> anyhow::Result<Tally> {
        let node = Node::read();
        let hardware = node.hardware()?;
        let mut collection = Collection::open(&self.output, self.resume, hardware, node.provenance())?;
        eprintln!(
            "{} with the {} space on {}",
            output::count(problems.len(), "problem"),
            self.space,
            collection.dataset.hardware.name
        );
        let mut tally = self.measure_all(problems, &mut collection, interrupt)?;
        collection.save()?;
        tally.in_file = collection.dataset.solutions.len();
        collect_summary::print(&collection.dataset, &tally, &self.output);
        Ok(tally)
    }

    fn check_backend(&self) -> anyhow::Result<()> {
        let refuse =
            |name| bail!("backend {name}: this build of diode has no GPU backend yet; use --backend cpu");
        match self.backend {
            Backend::Cuda => refuse("cuda"),
            Backend::Hip => refuse("hip"),
            Backend::Auto if gpus().is_ok_and(|gpus| !gpus.is_empty()) => {
                eprintln!("this build of diode has no GPU backend yet: measuring on the CPU");
                Ok(())
            }
            Backend::Auto | Backend::Cpu => Ok(()),
        }
    }

    /// Everything that would make hours of measuring worthless is refused first.
    fn check_output(&self) -> anyhow::Result<()> {
        let path = self.output.display();
        match Format::from_path(&self.output).map_err(Usage::new)? {
            Format::Columnar => {}
            other if !old_form::is_old(other) => {
                return Err(Usage::new(format!(
                    "{path}: {other} is not written while measuring; use a name that ends in .msgpack.zst, \
                     then `diode convert`"
                ))
                .into());
            }
            _ if self.lossy => {}
            other => {
                return Err(Usage::new(format!(
                    "{path}: {other} cannot hold {}; use a name that ends in .msgpack.zst, or add --lossy",
                    old_form::NOT_KEPT
                ))
                .into());
            }
        }
        if self.output.exists() && !self.resume {
            bail!("{path} exists; add --resume to go on with it, or choose another --output");
        }
        let folder = self.output.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            bail!("{}: no such folder; create it first", folder.display());
        }
        Ok(())
    }

    fn problems(&self) -> anyhow::Result<Vec<Problem>> {
        let Some(path) = &self.shapeset else { return Ok(self.generator.problems()?) };
        let (problems, repeated) = read_shapeset(path, &self.generator.ops)?;
        if repeated > 0 {
            eprintln!("{} repeated in the shape set, measured once", output::count(repeated, "problem"));
        }
        Ok(problems)
    }

    fn measure_all(
        &self,
        problems: &[Problem],
        collection: &mut Collection,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Tally> {
        let program = std::env::current_exe().context("cannot find the diode program itself")?;
        let mut supervisor = Supervisor::new(move || {
            let mut command = Command::new(&program);
            command.arg("measure-worker");
            Ok(command)
        });
        let mut progress = Progress::new(problems.len() as u64, "problems");
        let mut tally = Tally::default();
        let start = Instant::now();
        for (done, problem) in problems.iter().enumerate() {
            progress.set(done as u64, &format!("{} {}", problem.op, problem.dims()));
            if interrupt.requested() {
                tally.stopped = Some("interrupted");
                break;
            }
            if self.budget.is_some_and(|budget| start.elapsed() >= budget) {
                tally.stopped = Some("the budget is spent");
                break;
            }
            if collection.contains(problem) {
                tally.already_there += 1;
                continue;
            }
            if let Err(reason) = cpu::supports(problem) {
                progress.say(&format!("skipped {} {}: {reason}", problem.op, problem.dims()));
                tally.skipped += 1;
                continue;
            }
            match self.measure_one(problem, collection, &mut supervisor, interrupt)? {
                Some(measured) => {
                    tally.configs += measured.timed.len();
                    tally.failures += measured.failed.len();
                    tally.measured += 1;
                    collection.add(problem.clone(), Method::MEDIAN_WARM_WALL, measured)?;
                }
                None => {
                    tally.stopped = Some("interrupted");
                    break;
                }
            }
        }
        progress.finish();
        tally.elapsed = start.elapsed();
        Ok(tally)
    }

    fn measure_one(
        &self,
        problem: &Problem,
        collection: &Collection,
        supervisor: &mut Supervisor,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Option<Measured>> {
        let configs = Space::Named(self.space).configs(&collection.dataset.hardware, problem)?;
        if !fits_in_memory(problem) {
            return Ok(Some(Measured::all_failed(&configs, FailureReason::OutOfMemory)));
        }
        let seed = u64::from(self.generator.seed);
        measure(supervisor, problem, &configs, seed, &|| interrupt.insisted())
    }
}

/// Whether inputs and output fit in what memory is free, leaving a fifth to the
/// system. Where the system does not say, the attempt is made.
fn fits_in_memory(problem: &Problem) -> bool {
    node::available_memory().is_none_or(|bytes| cpu::bytes_needed(problem) <= bytes as f64 * 0.8)
}

/// What became of a run.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) measured: usize,
    pub(super) already_there: usize,
    pub(super) skipped: usize,
    pub(super) configs: usize,
    pub(super) failures: usize,
    /// Problems that the file holds in the end.
    pub(super) in_file: usize,
    pub(super) stopped: Option<&'static str>,
    pub(super) elapsed: Duration,
}

fn parse_budget(text: &str) -> Result<Duration, String> {
    text.parse::<jiff::SignedDuration>()
        .ok()
        .and_then(|duration| Duration::try_from(duration).ok())
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| "expected a time above zero with units, such as 90s, 10m or 1h30m".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_have_units() {
        assert_eq!(parse_budget("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(parse_budget("1h30m"), Ok(Duration::from_secs(5400)));
        for bad in ["10", "0s", "-5m", "soon", ""] {
            assert!(parse_budget(bad).is_err(), "{bad}");
        }
    }
}
