use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context as _, bail};
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use diode_api::{MAX_PACK_BYTES, PackSummary};
use diode_core::space::Space;
use diode_core::{Alignment, Bias, Config, DType, FailureReason, KernelVariant, Layout, Op, Scaling};
use diode_formats::pack::{Kernel, Outcome, Pack};
use serde::Serialize;

use crate::collect::bench::this_architecture;
use crate::failure::Usage;
use crate::input::arguments::{SpaceArg, at_least_one, dtype};
use crate::input::problems::chosen;
use crate::interrupt::Interrupt;
use crate::kernels::{
    Build, PackCache, Plan, PlannedKernel, Summary, TRITON, TRITONS, build, hardware_of, packs, problems_of,
    pull,
};
use crate::output::{self, count};
use crate::server::{ServerArgs, judge};

/// Compile kernels ahead of time, show what a pack of them holds, publish and pull packs
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode kernels build --arch sm_90 --dtypes bfloat16 --space full --output h200.pack\n  diode kernels info h200.pack"
)]
pub(crate) struct Kernels {
    #[command(subcommand)]
    command: KernelsCommand,
}

#[derive(Debug, Subcommand)]
enum KernelsCommand {
    Build(Box<BuildArgs>),
    Info(Info),
    Publish(Publish),
    Pull(Pull),
}

impl Kernels {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.command {
            KernelsCommand::Build(command) => command.run(),
            KernelsCommand::Info(command) => command.run(),
            KernelsCommand::Publish(command) => command.run(),
            KernelsCommand::Pull(command) => command.run(),
        }
    }
}

/// Compile every kernel of a space; needs no GPU
///
/// One kernel serves all sizes: there is one for each op, dtype, layout, alignment, tile, whether the
/// tile divides K and, where nothing divides N, whether it fits. An interrupted build goes on when it is started again.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode kernels build --arch sm_90 --ops mm,addmm --dtypes bfloat16,float16 --layouts nn,nt --space full --output h200.pack"
)]
struct BuildArgs {
    /// GPU architecture: sm_80 (A100), sm_90 (H100, H200) or gfx942 (MI300X)
    #[arg(long, alias = "architecture")]
    arch: String,

    /// Pack to write
    #[arg(long = "output", alias = "out", value_name = "FILE")]
    out: PathBuf,

    /// Operators
    #[arg(long, aliases = ["op", "operations"], value_delimiter = ',', default_value = "mm")]
    ops: Vec<Op>,

    /// Element types
    #[arg(long, alias = "dtype", value_delimiter = ',', default_value = "bfloat16", value_parser = parse_dtype)]
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

    /// How operands of scaled_mm, scaled_grouped_mm and fused_moe are scaled: tensor, row, block
    #[arg(long, value_delimiter = ',', default_value = "tensor,row,block")]
    scalings: Vec<Scaling>,

    /// Also the float32 kernels that round their inputs to TF32
    #[arg(long)]
    tf32: bool,

    /// Compile only the kernels that a list, as `diode predict` takes it, or a model such as Qwen3-8B needs
    #[arg(long, alias = "list", value_name = "FILE", conflicts_with_all = ["ops", "dtypes", "layouts", "alignments", "biases", "scalings", "tf32"])]
    problems: Option<PathBuf>,

    /// Compile their sizes in, as Inductor does: kernels like its own, for these problems alone
    #[arg(long, requires = "problems")]
    exact_sizes: bool,

    /// Which tiles: default, inductor-exhaustive, full, or a JSON file with a list of configs
    #[arg(long, alias = "search-space", default_value = "full")]
    space: SpaceArg,

    /// Version of Triton to compile with; times of a pack name it
    #[arg(long, value_name = "VERSION", default_value = TRITON, value_parser = PossibleValuesParser::new(TRITONS))]
    triton: String,

    /// A Python that has triton; without it, a virtual environment is made once
    #[arg(long, value_name = "FILE")]
    python: Option<PathBuf>,

    /// How many compilers to run side by side; all cores if not given
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    processes: Option<usize>,
}

impl BuildArgs {
    fn run(self) -> anyhow::Result<()> {
        hardware_of(&self.arch)?;
        if self.tf32 && !self.dtypes.contains(&DType::Float32) {
            say!("note: --tf32 adds nothing without float32 among --dtypes");
        }
        if self.ops.iter().all(|op| op.is_plain()) {
            let checked = self.dtypes.iter().try_for_each(|&dtype| KernelVariant::check_dtype(dtype));
            checked.map_err(|reason| Usage::new(format!("--dtypes: {reason}")))?;
        }
        let space = self.space.read()?;
        let named = match &self.space {
            SpaceArg::Named(name) => name.as_str(),
            SpaceArg::File(_) => "a list",
        };
        let plan = Plan {
            arch: self.arch.clone(),
            ops: self.ops,
            // A plain multiplication has no bias, whatever forms are asked for.
            biases: [vec![Bias::None], self.biases].concat(),
            dtypes: self.dtypes,
            layouts: self.layouts,
            alignments: self.alignments,
            scalings: self.scalings,
            tf32: self.tf32,
            space,
        };
        let kernels = match &self.problems {
            Some(list) => plan.kernels_for(&chosen(list, &[])?, self.exact_sizes)?,
            None => plan.kernels()?,
        };
        mention_left_out(&plan.space, &kernels);
        if !kernels.iter().any(|kernel| kernel.matmul) {
            bail!(
                "there is no kernel for what is asked for: of --ops, --biases, --dtypes, --alignments and --space, \
                 some do not go together"
            );
        }
        let cores = thread::available_parallelism().map_or(1, Into::into);
        let processes = self.processes.unwrap_or(cores).min(kernels.len());
        say!("{} for {} with {}", count(kernels.len(), "kernel"), self.arch, count(processes, "compiler"));
        let settings = Build {
            arch: &self.arch,
            output: &self.out,
            python: self.python.as_deref(),
            triton: &self.triton,
            processes,
            space: if self.problems.is_some() { "as needed" } else { named },
        };
        let interrupt = Interrupt::install("stopping: the kernels in hand are finished")?;
        match build(&settings, &kernels, &interrupt)? {
            Some(summary) => print_summary(&summary, &self.out),
            None => {
                bail!("interrupted: there is no pack yet; the same command goes on with what is compiled")
            }
        }
        Ok(())
    }
}

/// Says how many configs are left out, because there are no kernels of their templates for what is asked for.
fn mention_left_out(space: &Space, kernels: &[PlannedKernel]) {
    let Space::List(configs) = space else { return };
    let tma = kernels.iter().any(PlannedKernel::is_tma);
    let without = |config: &&Config| match config {
        Config::PersistentTma(_) => !tma,
        other => other.tile().is_none() && !other.is_library(),
    };
    let others = configs.iter().filter(without).count();
    if others > 0 {
        say!("note: {} of the list left out, whose templates have no kernels yet", count(others, "config"));
    }
}

fn print_summary(summary: &Summary, path: &Path) {
    let Summary { built, spilling, failed, resumed, bytes } = summary;
    if *resumed > 0 {
        say!("{}: already compiled by an earlier run", count(*resumed, "kernel"));
    }
    for (reason, number) in failed {
        say!("{} failed: {reason}", count(*number, "kernel"));
    }
    let mib = *bytes as f64 / f64::from(1 << 20);
    say!("{}: {}, {spilling} of them spill registers, {mib:.1} MiB", path.display(), count(*built, "kernel"));
    next!(
        "diode collect --kernels {} --output timings.msgpack.zst, on a node with such a GPU",
        path.display()
    );
}

fn parse_dtype(text: &str) -> Result<DType, String> {
    let dtype = dtype(text).map_err(|error| error.to_string())?;
    if !KernelVariant::SCALED_DTYPES.contains(&dtype) {
        KernelVariant::check_dtype(dtype)?;
    }
    Ok(dtype)
}

/// Parses layouts such as `nt`: A row-major, B column-major.
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

/// Show what a pack holds, and check that all of it is undamaged
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  diode kernels info h200.pack\n  diode kernels info h200.pack --each")]
struct Info {
    /// Pack to read
    pack: PathBuf,

    /// List each kernel, with its registers and its memory
    #[arg(long)]
    each: bool,

    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    digest: &'a str,
    arch: &'a str,
    toolchain: &'a BTreeMap<String, String>,
    kernels: usize,
    /// How many of the kernels prepare or check a measurement, rather than being measured.
    around: usize,
    spilling: usize,
    variants: Vec<VariantReport>,
    failed: Vec<Failed<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    each: Option<Vec<Each<'a>>>,
}

/// A kernel, and what it takes of a multiprocessor.
#[derive(Serialize)]
struct Each<'a> {
    kernel: &'a str,
    threads: u32,
    shared_memory: u32,
    /// Of each thread.
    registers: u32,
    /// Bytes of each thread. Spilled registers lie there.
    stack: u32,
}

/// A table with a row for each kernel.
fn table(each: &[Each<'_>]) -> String {
    let rows = each.iter().map(|one| {
        let Each { kernel, threads, shared_memory, registers, stack } = one;
        format!("{threads:>7}  {shared_memory:>13}  {registers:>9}  {stack:>5}  {kernel}\n")
    });
    let head = "\nthreads  shared memory  registers  stack  kernel\n".to_owned();
    std::iter::once(head).chain(rows).collect()
}

/// A variant of the pack, and how many kernels it has.
#[derive(Serialize)]
struct VariantReport {
    variant: String,
    kernels: usize,
    failed: usize,
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
        let (mut each, mut failed, mut around, mut spilling) = (Vec::new(), Vec::new(), 0, 0);
        let mut variants: BTreeMap<String, [usize; 2]> = BTreeMap::new();
        for record in pack.records() {
            let (kernel, variant) = (record.key.as_str(), problems_of(&record.key));
            let is_around = variant.is_none();
            let counts = variant.map(|variant| variants.entry(variant).or_default());
            match &record.outcome {
                Outcome::Built(built) => {
                    around += usize::from(is_around);
                    spilling += usize::from(built.stack > 0 && !is_around);
                    counts.into_iter().for_each(|counts| counts[0] += 1);
                    let Kernel { threads, shared, registers, stack, .. } = *built;
                    each.push(Each { kernel, threads, shared_memory: shared, registers, stack });
                }
                Outcome::Failed { reason, message } => {
                    counts.into_iter().for_each(|counts| counts[1] += 1);
                    failed.push(Failed { kernel, reason: *reason, message });
                }
            }
        }
        let variants = variants.into_iter();
        let report = Report {
            digest: pack.digest().as_str(),
            arch: pack.arch(),
            toolchain: pack.toolchain(),
            kernels: each.len(),
            around,
            spilling,
            variants: variants
                .map(|(variant, [kernels, failed])| VariantReport { variant, kernels, failed })
                .collect(),
            failed,
            each: self.each.then_some(each),
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
        output::text_out(&(text + &report.each.as_deref().map(table).unwrap_or_default()))
    }
}

/// Publish a pack on a server, for agents and people to pull; for its administrators
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  diode login --server https://diode.example.org --scope admin\n  \
                        diode kernels publish h100.pack --server https://diode.example.org")]
struct Publish {
    /// Pack to publish
    pack: PathBuf,

    /// Print one JSON document
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

impl Publish {
    fn run(self) -> anyhow::Result<()> {
        let client = self.server.client()?;
        // A damaged pack is not sent.
        Pack::open(&self.pack)?.check()?;
        let shown = self.pack.display();
        let file = std::fs::File::open(&self.pack).with_context(|| format!("cannot read {shown}"))?;
        let bytes = file.metadata().with_context(|| format!("cannot read {shown}"))?.len();
        anyhow::ensure!(
            bytes <= MAX_PACK_BYTES,
            "{shown}: {bytes} bytes, expected at most {MAX_PACK_BYTES}; build packs of fewer operators or types"
        );
        let sent = client.post_bytes("/packs", &[], bytes, file);
        let sent =
            sent.with_context(|| format!("cannot reach {}; is the server running?", client.address()))?;
        let pack: PackSummary = judge(sent)?;
        if self.json {
            return output::json(&pack);
        }
        let kernels: u64 = pack.variants.iter().map(|variant| variant.kernels).sum();
        say!(
            "{} {} for {} with {} of {}",
            if pack.already_stored { "already there:" } else { "published" },
            pack.digest,
            pack.architecture,
            count(kernels as usize, "kernel"),
            count(pack.variants.len(), "variant"),
        );
        Ok(())
    }
}

/// Pull a server's packs into this node's cache
///
/// `collect` and `agent` then find them there. Each is kept only if it is what its digest names.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode kernels pull --server https://diode.example.org --architecture sm_90"
)]
struct Pull {
    /// GPUs to pull packs for, such as sm_90 or gfx942 [default: those of this node]
    #[arg(long, alias = "arch", value_name = "ARCH")]
    architecture: Option<String>,

    #[command(flatten)]
    server: ServerArgs,
}

impl Pull {
    fn run(self) -> anyhow::Result<()> {
        let arch = match self.architecture {
            Some(arch) => arch,
            None => this_architecture()?,
        };
        let client = self.server.client()?;
        let cache = PackCache::open()?;
        let listed = packs(&client, &arch)?;
        if listed.is_empty() {
            anyhow::bail!("{} has no kernel packs for {arch}", client.address());
        }
        let mut text = String::new();
        for pack in &listed {
            text += &format!("{}\n", pull(&client, &cache, pack)?.display());
        }
        say!("{} for {arch}", count(listed.len(), "pack"));
        output::text_out(&text)
    }
}
