use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread;

use anyhow::bail;
use clap::{Args, Subcommand};
use diode_core::space::Space;
use diode_core::{Alignment, Bias, Config, DType, FailureReason, Layout, Op};
use diode_formats::pack::{Kernel, Outcome, Pack};
use serde::Serialize;

use crate::input::arguments::dtype;
use crate::input::problems::read_problems;
use crate::input::space::SpaceArg;
use crate::interrupt::Interrupt;
use crate::kernels::{Build, Plan, Summary, build, check_type, hardware_of, problems_of, tile_of};
use crate::output::{self, count};

/// Compile kernels ahead of time, or show what a pack of them holds
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode kernels build --arch sm_90 --dtypes bfloat16 --space full --out h200.pack\n  diode kernels info h200.pack"
)]
pub(crate) struct Kernels {
    #[command(subcommand)]
    command: KernelsCommand,
}

#[derive(Debug, Subcommand)]
enum KernelsCommand {
    Build(Box<BuildArgs>),
    Info(Info),
}

/// Compile every kernel of a space; needs no GPU
///
/// One kernel serves all sizes: there is one for each op, dtype, layout, alignment, tile, whether the
/// tile divides K and, where nothing divides N, whether it fits. An interrupted build goes on when it is started again.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode kernels build --arch sm_90 --ops mm,addmm --dtypes bfloat16,float16 --layouts nn,nt --space full --out h200.pack"
)]
struct BuildArgs {
    /// GPU architecture: sm_80 (A100), sm_90 (H100, H200) or gfx942 (MI300X)
    #[arg(long)]
    arch: String,

    /// Pack to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,

    /// Operators
    #[arg(long, value_delimiter = ',', default_value = "mm")]
    ops: Vec<Op>,

    /// Element types
    #[arg(long, value_delimiter = ',', default_value = "bfloat16", value_parser = parse_dtype)]
    dtypes: Vec<DType>,

    /// Layouts of A and B: n for row-major, t for column-major; nn.Linear is nt
    #[arg(long, value_delimiter = ',', default_value = "nn", value_parser = parse_layouts)]
    layouts: Vec<(Layout, Layout)>,

    /// How rows may be aligned: 16 (K and N such that rows take a multiple of 16 bytes), 4, none
    #[arg(long, value_delimiter = ',', default_value = "16")]
    alignments: Vec<Alignment>,

    /// Forms of the bias of addmm and baddbmm
    #[arg(long, value_delimiter = ',', default_value = "vector,matrix")]
    biases: Vec<Bias>,

    /// Also the float32 kernels that round their inputs to TF32
    #[arg(long)]
    tf32: bool,

    /// Only the kernels that the problems of a JSON list need, as `diode collect --problems` takes it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["ops", "dtypes", "layouts", "alignments", "biases", "tf32"])]
    problems: Option<PathBuf>,

    /// Compile their sizes in, as Inductor does: kernels like its own, for these problems alone
    #[arg(long, requires = "problems")]
    exact_sizes: bool,

    /// Which tiles: default, inductor-exhaustive, full, or a JSON file with a list of configs
    #[arg(long, default_value = "full")]
    space: SpaceArg,

    /// A Python that has triton; without it, a virtual environment is made once
    #[arg(long, value_name = "FILE")]
    python: Option<PathBuf>,

    /// How many compilers to run side by side; all cores if not given
    #[arg(long, value_name = "N", value_parser = crate::input::arguments::at_least_one)]
    processes: Option<usize>,
}

/// Show what a pack holds, and check that all of it is undamaged
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  diode kernels info h200.pack")]
struct Info {
    /// Pack to read
    pack: PathBuf,

    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Kernels {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.command {
            KernelsCommand::Build(command) => command.run(),
            KernelsCommand::Info(command) => command.run(),
        }
    }
}

impl BuildArgs {
    fn run(self) -> anyhow::Result<()> {
        let hardware = hardware_of(&self.arch)?;
        if self.tf32 && !self.dtypes.contains(&DType::Float32) {
            say!("note: --tf32 adds nothing without float32 among --dtypes");
        }
        let space = self.space.read()?;
        mention_left_out(&space);
        let plan = Plan {
            arch: self.arch.clone(),
            ops: self.ops,
            // A plain multiplication has none, whatever else is asked for.
            biases: [vec![Bias::None], self.biases].concat(),
            dtypes: self.dtypes,
            layouts: self.layouts,
            alignments: self.alignments,
            tf32: self.tf32,
            space,
        };
        let jobs = match &self.problems {
            Some(list) => plan.jobs_for(&read_problems(list)?.0, self.exact_sizes)?,
            None => plan.jobs()?,
        };
        if !jobs.iter().any(|job| job.matmul) {
            bail!(
                "there is no kernel for what is asked for: of --ops, --biases, --dtypes, --alignments and --space, \
                 some do not go together"
            );
        }
        let cores = thread::available_parallelism().map_or(1, Into::into);
        let processes = self.processes.unwrap_or(cores).min(jobs.len());
        say!("{} for {} with {}", count(jobs.len(), "kernel"), self.arch, count(processes, "compiler"));
        let settings = Build {
            arch: &self.arch,
            output: &self.out,
            python: self.python.as_deref(),
            processes,
            shared_limit: hardware.facts.map_or(u32::MAX, |facts| facts.smem_per_block),
        };
        let interrupt = Interrupt::install()?;
        match build(&settings, &jobs, &interrupt)? {
            Some(summary) => print_summary(&summary, &self.out),
            None => {
                bail!("interrupted: there is no pack yet; the same command goes on with what is compiled")
            }
        }
        Ok(())
    }
}

/// Kernels exist for the tiles of one template.
fn mention_left_out(space: &Space) {
    let Space::List(configs) = space else { return };
    let without = |config: &&Config| tile_of(config).is_none() && **config != Config::Library;
    let others = configs.iter().filter(without).count();
    if others > 0 {
        say!("note: {} of the list left out, whose templates have no kernels yet", count(others, "config"));
    }
}

fn print_summary(summary: &Summary, path: &std::path::Path) {
    let Summary { built, spilling, failed, resumed, bytes } = summary;
    if *resumed > 0 {
        say!("{}: already compiled by an earlier run", count(*resumed, "kernel"));
    }
    for (reason, number) in failed {
        say!("{} failed: {reason}", count(*number, "kernel"));
    }
    let mib = *bytes as f64 / f64::from(1 << 20);
    say!("{}: {}, {spilling} of them spill registers, {mib:.1} MiB", path.display(), count(*built, "kernel"));
}

#[derive(Serialize)]
struct Report<'a> {
    digest: &'a str,
    arch: &'a str,
    toolchain: &'a BTreeMap<String, String>,
    kernels: usize,
    /// Those of them that prepare and check a measurement.
    around: usize,
    spilling: usize,
    variants: Vec<VariantReport>,
    failed: Vec<Failed<'a>>,
}

/// Which problems the pack serves, and with how many kernels.
#[derive(Serialize)]
struct VariantReport {
    variant: String,
    kernels: usize,
    failed: usize,
}

fn variants(pack: &Pack) -> Vec<VariantReport> {
    let mut found: BTreeMap<String, [usize; 2]> = BTreeMap::new();
    for record in pack.records() {
        let Some(variant) = problems_of(&record.key) else { continue };
        let failed = matches!(record.outcome, Outcome::Failed { .. });
        found.entry(variant).or_default()[usize::from(failed)] += 1;
    }
    found.into_iter().map(|(variant, [kernels, failed])| VariantReport { variant, kernels, failed }).collect()
}

#[derive(Serialize)]
struct Failed<'a> {
    kernel: &'a str,
    reason: FailureReason,
    message: &'a str,
}

impl Info {
    fn run(self) -> anyhow::Result<()> {
        let mut pack = Pack::open(&self.pack)?;
        pack.check()?;
        let built = |which: fn(&str, &Kernel) -> bool| {
            let records = pack.records().iter();
            records
                .filter(
                    |record| matches!(&record.outcome, Outcome::Built(kernel) if which(&record.key, kernel)),
                )
                .count()
        };
        let failed = pack.records().iter().filter_map(|record| match &record.outcome {
            Outcome::Built(_) => None,
            Outcome::Failed { reason, message } => {
                Some(Failed { kernel: &record.key, reason: *reason, message })
            }
        });
        let report = Report {
            digest: pack.digest().as_str(),
            arch: pack.arch(),
            toolchain: pack.toolchain(),
            kernels: built(|_, _| true),
            around: built(|key, _| problems_of(key).is_none()),
            spilling: built(|key, kernel| kernel.stack > 0 && problems_of(key).is_some()),
            variants: variants(&pack),
            failed: failed.collect(),
        };
        if self.json {
            return output::json(&report);
        }
        let mut rows = vec![
            ("digest".to_owned(), report.digest.to_owned()),
            ("architecture".to_owned(), report.arch.to_owned()),
        ];
        rows.extend(report.toolchain.iter().map(|(name, value)| (name.clone(), value.clone())));
        rows.push((
            "kernels".to_owned(),
            format!(
                "{}, {} of them to prepare and check; {} spill registers",
                report.kernels, report.around, report.spilling
            ),
        ));
        rows.extend(report.variants.iter().map(|variant| {
            let VariantReport { variant, kernels, failed } = variant;
            let failed = if *failed > 0 { format!(", {failed} failed") } else { String::new() };
            (format!("  {}", count(*kernels, "kernel")), format!("{variant}{failed}"))
        }));
        rows.push(("failed".to_owned(), report.failed.len().to_string()));
        rows.extend(report.failed.iter().map(|failed| {
            (format!("  {}", failed.reason), format!("{}: {}", failed.kernel, failed.message))
        }));
        let text: String = rows.iter().map(|(name, value)| format!("{name:<15} {value}\n")).collect();
        output::text_out(&text)
    }
}

fn parse_dtype(text: &str) -> Result<DType, String> {
    let dtype = dtype(text).map_err(|error| error.to_string())?;
    check_type(dtype)?;
    Ok(dtype)
}

/// `nt`: A row-major, B column-major.
fn parse_layouts(text: &str) -> Result<(Layout, Layout), String> {
    let layout = |letter| match letter {
        'n' => Some(Layout::Row),
        't' => Some(Layout::Column),
        _ => None,
    };
    let mut letters = text.chars();
    match (letters.next().and_then(layout), letters.next().and_then(layout), letters.next()) {
        (Some(a), Some(b), None) => Ok((a, b)),
        _ => Err("expected nn, nt, tn or tt".to_owned()),
    }
}
