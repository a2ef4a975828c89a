use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use diode_core::Problem;

use crate::collect::bench::DeviceArgs;
use crate::collect::collection::Output;
use crate::collect::{Collecting, ConfigArgs, STOPPING};
use crate::commands::predecessor::mention_losses;
use crate::input::arguments;
use crate::input::generator::GeneratorArgs;
use crate::input::problems::chosen;
use crate::interrupt::Interrupt;
use crate::output;
use crate::server::PackServerArgs;

/// Time every config of a space on many problems
///
/// Ctrl-C lets the problem in hand finish and keeps everything measured so far; a
/// second one drops that problem. `--resume` goes on later.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode collect --output cpu.msgpack.zst --num-shapes 20 --max-size 512 --budget 10m\n  diode collect --output h200.msgpack.zst --kernels h200.pack --space full --log-normal --ops mm --dtypes bfloat16 --num-shapes 500 --resume"
)]
pub(crate) struct Collect {
    /// File to write: .msgpack.zst, or with --lossy torch-diode's .json or .msgpack
    #[arg(long, value_name = "FILE")]
    output: PathBuf,

    /// Write torch-diode's .json or .msgpack, which hold times and no more
    #[arg(long)]
    lossy: bool,

    /// Measure the problems of a list, as `diode predict` takes it, or of a model such as Qwen3-8B; --ops selects operators
    #[arg(
        long,
        aliases = ["shapeset", "list"],
        value_name = "FILE",
        conflicts_with_all = [
            "num_shapes", "log_normal", "power_of_two", "min_size", "max_size", "no_rectangular", "no_odd_sizes", "dtypes",
            "transformer", "convolution"
        ]
    )]
    problems: Option<PathBuf>,

    /// Write files of so many problems each: name_1, name_2 and so on
    #[arg(long, value_name = "N", value_parser = arguments::at_least_one)]
    chunk_size: Option<usize>,

    /// Start no further problem after this time, such as 90s, 10m or 1h30m
    #[arg(long, value_name = "TIME", value_parser = arguments::duration)]
    budget: Option<Duration>,

    /// Go on with an existing output: problems that are in it are skipped
    #[arg(long)]
    resume: bool,

    #[command(flatten)]
    configs: ConfigArgs,

    #[command(flatten)]
    devices: DeviceArgs,

    #[command(flatten)]
    packs: PackServerArgs,

    #[command(flatten)]
    generator: GeneratorArgs,
}

impl Collect {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let output = Output::new(&self.output, self.chunk_size, self.lossy)?;
        output.check(self.resume)?;
        if !output.holds_everything() {
            mention_losses(&[&self.output]);
        }
        let problems = self.problems()?;
        let collecting = Collecting {
            output,
            resume: self.resume,
            configs: self.configs,
            devices: self.devices,
            pack_server: self.packs,
            seed: self.generator.seed.into(),
            budget: self.budget,
        };
        let tally = collecting.run(&problems, &Interrupt::install(STOPPING)?)?;
        if tally.in_file == 0 {
            if tally.budget_spent {
                bail!("nothing was measured: the budget is spent");
            }
            if problems.is_empty() {
                bail!("nothing was measured: there are no problems");
            }
            bail!(
                "nothing was measured: {} of {} problems skipped, for the reasons above",
                tally.skipped,
                problems.len()
            );
        }
        if tally.measured > 0 && tally.configs == 0 {
            bail!("nothing was timed: every config failed on {}", output::count(tally.measured, "problem"));
        }
        let shown = self.output.display();
        next!(
            "diode stats {shown} shows it, diode table {shown} --output table.json keeps the best, diode upload {shown} shares it"
        );
        Ok(())
    }

    fn problems(&self) -> anyhow::Result<Vec<Problem>> {
        match &self.problems {
            Some(list) => chosen(list, &self.generator.ops),
            None => Ok(self.generator.problems()?),
        }
    }
}
