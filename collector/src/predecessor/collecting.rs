//! Collecting for the commands that torch-diode's toolkit had beside `collect`.

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::Args;
use diode_core::Problem;
use diode_core::space::SpaceName;
use diode_formats::Format;

use super::flags::{OldFormat, SearchMode};
use crate::commands::collect::{Backend, Collect};
use crate::devices::gpu::choice::DeviceArg;
use crate::failure::Usage;
use crate::input::arguments;
use crate::input::problems::read_shapeset;
use crate::input::space::SpaceArg;
use crate::interrupt::Interrupt;
use crate::output;

/// How to measure and what to write.
#[derive(Debug, Args)]
#[command(next_help_heading = "Measuring")]
pub(crate) struct Collecting {
    /// Which configs to time: EXHAUSTIVE or DEFAULT as Inductor calls them, or full
    #[arg(long, alias = "space", default_value = "EXHAUSTIVE", value_name = "SPACE", value_parser = arguments::space)]
    search_space: SpaceName,

    /// What to measure on
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    backend: Backend,

    /// Kernel pack to launch from; `diode kernels build` makes one
    #[arg(long, value_name = "PACK")]
    kernels: Option<PathBuf>,

    /// GPUs to use side by side, instead of the first alone: 1, or 0,1, or all
    #[arg(long, value_name = "LIST")]
    device: Option<DeviceArg>,

    /// Folder with libcublas and libcublasLt, if the system does not find them
    #[arg(long, value_name = "FOLDER")]
    cublas: Option<PathBuf>,

    /// Write torch-diode's JSON or MessagePack, whatever the extension of the output
    #[arg(long, value_enum)]
    pub(crate) format: Option<OldFormat>,

    /// Go on with existing output: problems that are in it are skipped
    #[arg(long)]
    pub(crate) resume: bool,

    #[command(flatten)]
    _search_mode: SearchMode,
}

impl Collecting {
    /// Where a name given by the user leads to; refuses what no format is known for.
    pub(crate) fn output(&self, path: &Path) -> Result<PathBuf, Usage> {
        let path = OldFormat::applied(self.format, path)?;
        match Format::from_path(&path).map_err(Usage::new)? {
            Format::Csv | Format::Parquet => Err(Usage::new(format!(
                "{}: expected a name that ends in .json, .msgpack or .msgpack.zst; `diode convert` makes the others",
                path.display()
            ))),
            _ => Ok(path),
        }
    }

    /// Measures problems into one file, or into files of so many each: `name_1.json`, `name_2.json` …
    pub(crate) fn collect(
        &self,
        output: &Path,
        chunk_size: Option<usize>,
        problems: &[Problem],
        seed: u32,
        interrupt: &Interrupt,
    ) -> anyhow::Result<()> {
        let mut collect = Collect::into_file(output)?;
        collect.lossy = true;
        collect.space = Some(SpaceArg::Named(self.search_space));
        collect.backend = self.backend;
        collect.kernels = self.kernels.clone();
        collect.device = self.device.clone();
        collect.cublas = self.cublas.clone();
        collect.chunk_size = chunk_size;
        collect.resume = self.resume;
        collect.generator.seed = seed;
        let in_files = collect.run_on(problems, interrupt)?;
        if in_files == 0 {
            bail!("{}: nothing was measured", output.display());
        }
        Ok(())
    }
}

/// The problems of a shape set; says which are left out.
pub(crate) fn problems_of(shapeset: &Path, ops: &[diode_core::Op]) -> anyhow::Result<Vec<Problem>> {
    let (problems, repeated) = read_shapeset(shapeset, ops)?;
    if repeated > 0 {
        say!("{} repeated in the shape set, measured once", output::count(repeated, "problem"));
    }
    Ok(problems)
}
