use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use clap::{Args, FromArgMatches as _, ValueEnum};
use diode_core::hardware::Hardware;
use diode_core::space::{Space, SpaceName};
use diode_core::{Config, Problem, Provenance};
use diode_formats::Format;
use diode_model::AnyModel;

use crate::collect::collection::Collection;
use crate::collect::runner::{Runner, Tally};
use crate::collect::summary;
use crate::devices::cpu::CpuMeter;
use crate::devices::gpu::choice::DeviceArg;
use crate::devices::gpu::{GpuMeter, GpuOptions};
use crate::devices::meter::Meter;
use crate::failure::Usage;
use crate::input::problems::{GeneratorArgs, read_problems, read_shapeset};
use crate::input::space::SpaceArg;
use crate::input::{arguments, models};
use crate::interrupt::Interrupt;
use crate::node::{self, Node, gpus};
use crate::output;
use crate::predecessor::datasets as old_form;
use crate::predecessor::flags::SearchMode;

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
    pub(crate) lossy: bool,

    /// Measure the problems of a torch-diode shape set (JSON) instead of drawing them
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = [
            "num_shapes", "log_normal", "power_of_two", "min_size", "max_size", "no_rectangular", "no_odd_sizes", "dtypes", "transformer", "convolution"
        ]
    )]
    shapeset: Option<PathBuf>,

    /// Measure the problems of a JSON list, such as `diode shapes --json` prints
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = [
            "shapeset", "num_shapes", "log_normal", "power_of_two", "min_size", "max_size", "no_rectangular", "no_odd_sizes",
            "dtypes", "ops"
        ]
    )]
    problems: Option<PathBuf>,

    /// Which configs to time: default, inductor-exhaustive, full, or a JSON file with a list of them;
    /// default, or with --model full, if not given
    #[arg(long, alias = "search-space")]
    pub(crate) space: Option<SpaceArg>,

    /// Time only the default configs and those of the space that a model ranks best; see --top
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,

    /// How many configs of the space to take from the model
    #[arg(long, value_name = "N", default_value_t = 200, requires = "model", value_parser = arguments::at_least_one)]
    top: usize,

    /// What to measure on; auto takes GPUs if --kernels is given
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    pub(crate) backend: Backend,

    /// Kernel pack to launch from; `diode kernels build` makes one
    #[arg(long, value_name = "PACK")]
    pub(crate) kernels: Option<PathBuf>,

    /// GPUs to use side by side, instead of the first alone: 1, or 0,1, or all
    #[arg(long, value_name = "LIST")]
    pub(crate) device: Option<DeviceArg>,

    /// Folder with libcublas and libcublasLt, if the system does not find them
    #[arg(long, value_name = "FOLDER")]
    pub(crate) cublas: Option<PathBuf>,

    /// Write files of so many problems each: name_1, name_2 and so on
    #[arg(long, value_name = "N", value_parser = arguments::at_least_one)]
    pub(crate) chunk_size: Option<usize>,

    /// Start no further problem after this time, such as 90s, 10m or 1h30m
    #[arg(long, value_name = "TIME", value_parser = parse_budget)]
    budget: Option<Duration>,

    /// Go on with an existing output: problems that are in it are skipped
    #[arg(long)]
    pub(crate) resume: bool,

    #[command(flatten)]
    pub(crate) generator: GeneratorArgs,

    #[command(flatten)]
    _search_mode: SearchMode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    /// The best this build has on this node
    Auto,
    /// NVIDIA GPUs, with kernels from a pack
    Cuda,
    /// AMD GPUs (not in this build yet)
    Hip,
    /// A blocked matrix multiplication on this CPU
    Cpu,
}

impl Collect {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        self.check_output()?;
        old_form::mention_losses(&[&self.output]);
        let problems = self.problems()?;
        let tally = self.measure(&problems, &Interrupt::install()?)?;
        if tally.in_file == 0 {
            match tally.stopped {
                Some(reason) => bail!("nothing was measured: {reason}"),
                None if problems.is_empty() => bail!("nothing was measured: there are no problems"),
                None => bail!(
                    "nothing was measured: {} of {} problems skipped, for the reasons above",
                    tally.skipped,
                    problems.len()
                ),
            }
        }
        if tally.measured > 0 && tally.configs == 0 {
            bail!("nothing was timed: every config failed on {}", output::count(tally.measured, "problem"));
        }
        Ok(())
    }

    /// A collection into a file as other commands start it: every flag has its default.
    pub(crate) fn into_file(output: &Path) -> anyhow::Result<Self> {
        // In one word, since a name may begin with a dash.
        let mut output_flag = OsString::from("--output=");
        output_flag.push(output);
        let arguments = ["collect".into(), output_flag];
        let matches = Self::augment_args(clap::Command::new("collect")).try_get_matches_from(arguments)?;
        Ok(Self::from_arg_matches(&matches)?)
    }

    /// Measures given problems; returns how many the file holds then.
    pub(crate) fn run_on(&self, problems: &[Problem], interrupt: &Interrupt) -> anyhow::Result<usize> {
        self.check_output()?;
        Ok(self.measure(problems, interrupt)?.in_file)
    }

    fn measure(&self, problems: &[Problem], interrupt: &Interrupt) -> anyhow::Result<Tally> {
        let problems = &old_form::told_apart(&self.output, problems);
        let space = self.space().read()?;
        let model = self.model.as_deref().map(models::read_model).transpose()?;
        let bench = self.bench(interrupt)?;
        let mut collection =
            Collection::open(&self.output, self.chunk_size, self.resume, bench.hardware, bench.provenance)?;
        let hardware = collection.hardware().clone();
        say!("{} with {} on {}", output::count(problems.len(), "problem"), self.in_words(), hardware.name);
        let configs = |problem: &Problem| {
            let mut configs = candidates(&space, model.as_ref(), self.top, &hardware, problem)?;
            if bench.library {
                configs.push(Config::Library);
            }
            Ok(configs)
        };
        if self.resume && !old_form::is_old(Format::from_path(&self.output)?) {
            let lacking = collection.timed_otherwise(problems, &configs)?;
            if lacking > 0 {
                say!(
                    "note: {} in the file without some of the configs asked for; they are not measured again",
                    output::count(lacking, "problem")
                );
            }
        }
        let runner = Runner { problems, configs: &configs, budget: self.budget, interrupt };
        let result = runner.run(bench.meters, &mut collection);
        // Whatever went wrong, what was measured before it is kept.
        collection.save()?;
        let mut tally = result?;
        tally.in_file = collection.problems();
        summary::print(&collection, &tally);
        Ok(tally)
    }

    fn space(&self) -> SpaceArg {
        let usual = if self.model.is_some() { SpaceName::Full } else { SpaceName::Default };
        self.space.clone().unwrap_or(SpaceArg::Named(usual))
    }

    fn in_words(&self) -> String {
        let space = self.space();
        match &self.model {
            Some(model) => {
                format!("the default configs and the {} best of {space} by {}", self.top, model.display())
            }
            None => format!("the {space} space"),
        }
    }

    /// The devices to measure on.
    fn bench(&self, interrupt: &Interrupt) -> anyhow::Result<Bench> {
        let cuda = match self.backend {
            Backend::Hip => {
                bail!("backend hip: this build of diode has no AMD backend yet; use --backend cpu")
            }
            Backend::Cuda => true,
            Backend::Cpu => false,
            Backend::Auto => self.kernels.is_some(),
        };
        match (&self.kernels, cuda) {
            (Some(pack), true) => return self.gpus(pack, interrupt),
            (None, true) => {
                return Err(Usage::new(
                    "backend cuda: expected a kernel pack with --kernels; `diode kernels build` makes one",
                )
                .into());
            }
            (Some(_), false) => {
                return Err(Usage::new("--kernels: packs are for GPUs; leave out --backend cpu").into());
            }
            (None, false) => {}
        }
        if self.device.is_some() {
            return Err(
                Usage::new("--device: it chooses among GPUs; leave it out, or name a kernel pack").into()
            );
        }
        if self.cublas.is_some() {
            return Err(
                Usage::new("--cublas: cuBLAS is for GPUs; leave it out, or name a kernel pack").into()
            );
        }
        if self.backend == Backend::Auto && gpus().is_ok_and(|gpus| !gpus.is_empty()) {
            say!("measuring on the CPU; for the GPU, name a kernel pack with --kernels");
        }
        let node = Node::read();
        let meter: Box<dyn Meter> = Box::new(CpuMeter::new(self.generator.seed.into())?);
        Ok(Bench {
            meters: vec![meter],
            hardware: node.hardware()?,
            provenance: node.provenance(),
            library: false,
        })
    }

    fn gpus(&self, pack: &Path, interrupt: &Interrupt) -> anyhow::Result<Bench> {
        let options = GpuOptions {
            pack: pack.to_owned(),
            cublas: self.cublas.clone(),
            seed: self.generator.seed.into(),
        };
        let mut bench: Option<Bench> = None;
        let mut devices = match &self.device {
            Some(DeviceArg::Numbers(numbers)) => numbers.clone(),
            Some(DeviceArg::All) | None => vec![0],
        };
        let mut place = 0;
        while let Some(&device) = devices.get(place) {
            let (meter, node) = GpuMeter::start(&options, device, &|| interrupt.requested())?;
            if place == 0 && self.device == Some(DeviceArg::All) {
                devices.extend(1..node.devices);
            }
            place += 1;
            for warning in &node.warnings {
                say!("GPU {device}: {warning}");
            }
            let hardware = Hardware::from_name(&node.name)?;
            let meter: Box<dyn Meter> = Box::new(meter);
            match &mut bench {
                None => {
                    let library = node.facts.contains_key("cublas");
                    let provenance = node::provenance_of(node.facts);
                    bench = Some(Bench { meters: vec![meter], hardware, provenance, library });
                }
                Some(bench) if bench.hardware.slug == hardware.slug => bench.meters.push(meter),
                Some(bench) => bail!(
                    "GPU {device} is {}, the others are {}: collect on one kind at a time, chosen with --device",
                    hardware.name,
                    bench.hardware.name
                ),
            }
        }
        bench.ok_or_else(|| Usage::new("--device: expected at least one GPU").into())
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
        let files = Collection::files(&self.output, self.chunk_size)?;
        if let Some(other) = files.iter().find(|file| file.metadata().is_ok_and(|there| !there.is_file())) {
            bail!("{}: it is there and no regular file; choose another --output", other.display());
        }
        if !self.resume {
            Collection::check_is_new(&self.output, self.chunk_size)?;
        }
        let other_form = Collection::other_form(&self.output, self.chunk_size)?;
        if let (Some(other), true, true) = (other_form, self.resume, files.is_empty()) {
            let chunks =
                if self.chunk_size.is_some() { "leave out --chunk-size" } else { "add --chunk-size" };
            bail!("{} is there: {chunks} to go on with it, or leave out --resume", other.display());
        }
        let folder = self.output.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            bail!("{}: no such folder; create it first", folder.display());
        }
        Ok(())
    }

    fn problems(&self) -> anyhow::Result<Vec<Problem>> {
        let (problems, repeated) = match (&self.problems, &self.shapeset) {
            (Some(path), _) => read_problems(path)?,
            (None, Some(path)) => read_shapeset(path, &self.generator.ops)?,
            (None, None) => return Ok(self.generator.problems()?),
        };
        if repeated > 0 {
            say!("{} repeated in the list, measured once", output::count(repeated, "problem"));
        }
        Ok(problems)
    }
}

/// What measures, and what it measures on.
struct Bench {
    meters: Vec<Box<dyn Meter>>,
    hardware: Hardware,
    provenance: Provenance,
    /// Whether the vendor's library is there to be timed too.
    library: bool,
}

/// The configs to time on a problem.
fn candidates(
    space: &Space,
    model: Option<&AnyModel>,
    top: usize,
    hardware: &Hardware,
    problem: &Problem,
) -> anyhow::Result<Vec<Config>> {
    let Some(model) = model else { return Ok(space.configs(hardware, problem)?) };
    let mut configs = Space::Named(SpaceName::Default).configs(hardware, problem)?;
    let ranked = model.rank(problem, space)?.configs.into_iter().map(|(config, _)| config);
    let more: Vec<Config> = ranked.take(top).filter(|config| !configs.contains(config)).collect();
    configs.extend(more);
    Ok(configs)
}

fn parse_budget(text: &str) -> Result<Duration, String> {
    text.parse::<jiff::SignedDuration>()
        .ok()
        .and_then(|duration| Duration::try_from(duration).ok())
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| {
            "expected a time above zero with units, such as 90s, 10m or 1h30m; leave it out for no limit"
                .to_owned()
        })
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
