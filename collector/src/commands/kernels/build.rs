use std::path::{Path, PathBuf};
use std::thread;

use anyhow::bail;
use clap::Args;
use diode_core::space::Space;
use diode_core::{Alignment, Bias, Config, DType, KernelVariant, Layout, Op};

use crate::input::arguments::{at_least_one, dtype};
use crate::input::problems::read_problems;
use crate::input::space::SpaceArg;
use crate::interrupt::Interrupt;
use crate::kernels::{Build, Plan, Summary, build, hardware_of, tile_of};
use crate::output::count;

/// Compile every kernel of a space; needs no GPU
///
/// One kernel serves all sizes: there is one for each op, dtype, layout, alignment, tile, whether the
/// tile divides K and, where nothing divides N, whether it fits. An interrupted build goes on when it is started again.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode kernels build --arch sm_90 --ops mm,addmm --dtypes bfloat16,float16 --layouts nn,nt --space full --out h200.pack"
)]
pub(super) struct BuildArgs {
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
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    processes: Option<usize>,
}

impl BuildArgs {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let hardware = hardware_of(&self.arch)?;
        if self.tf32 && !self.dtypes.contains(&DType::Float32) {
            say!("note: --tf32 adds nothing without float32 among --dtypes");
        }
        let space = self.space.read()?;
        let named = match &self.space {
            SpaceArg::Named(name) => name.as_str(),
            SpaceArg::File(_) => "a list",
        };
        mention_left_out(&space);
        let plan = Plan {
            arch: self.arch.clone(),
            ops: self.ops,
            // A plain multiplication has no bias, whatever forms are asked for.
            biases: [vec![Bias::None], self.biases].concat(),
            dtypes: self.dtypes,
            layouts: self.layouts,
            alignments: self.alignments,
            tf32: self.tf32,
            space,
        };
        let kernels = match &self.problems {
            Some(list) => plan.kernels_for(&read_problems(list)?.0, self.exact_sizes)?,
            None => plan.kernels()?,
        };
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
            processes,
            shared_limit: hardware.facts.map_or(u32::MAX, |facts| facts.smem_per_block),
            space: if self.problems.is_some() { "as needed" } else { named },
        };
        let interrupt = Interrupt::install()?;
        match build(&settings, &kernels, &interrupt)? {
            Some(summary) => print_summary(&summary, &self.out),
            None => {
                bail!("interrupted: there is no pack yet; the same command goes on with what is compiled")
            }
        }
        Ok(())
    }
}

/// Says how many configs are left out: kernels exist only for the tiles of one template.
fn mention_left_out(space: &Space) {
    let Space::List(configs) = space else { return };
    let without = |config: &&Config| tile_of(config).is_none() && !config.is_library();
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
}

fn parse_dtype(text: &str) -> Result<DType, String> {
    let dtype = dtype(text).map_err(|error| error.to_string())?;
    KernelVariant::check_dtype(dtype)?;
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
