//! What three of torch-diode's commands share: `collect-shapeset`, `create-validation` and `collect-and-train` all measure
//! problems and write the results to files.

use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::Args;
use diode_core::Problem;
use diode_core::space::SpaceName;
use diode_formats::Format;

use super::flags::DatasetFormat;
use crate::collect::bench::DeviceArgs;
use crate::collect::output::Output;
use crate::collect::{Collecting, ConfigArgs};
use crate::failure::Usage;
use crate::input::arguments;
use crate::input::problems::read_shapeset;
use crate::interrupt::Interrupt;
use crate::output;
use crate::server::PackServerArgs;

/// How to measure and what to write.
#[derive(Debug, Args)]
#[command(next_help_heading = "Measuring", mut_arg("backend", |backend| backend.help("What to measure on")))]
pub(super) struct CollectingArgs {
    /// Which configs to time: EXHAUSTIVE or DEFAULT as Inductor calls them, or full
    #[arg(long, alias = "space", default_value = "EXHAUSTIVE", value_name = "SPACE", value_parser = arguments::space)]
    search_space: SpaceName,

    #[command(flatten)]
    devices: DeviceArgs,

    #[command(flatten)]
    packs: PackServerArgs,

    /// Write torch-diode's JSON or MessagePack, whatever the extension of the output
    #[arg(long, value_enum)]
    pub(crate) format: Option<DatasetFormat>,

    /// Go on with existing output: problems that are in it are skipped
    #[arg(long)]
    pub(crate) resume: bool,
}

impl CollectingArgs {
    /// The path of the file to write for a name that the user gives. Refuses formats that these commands do not
    /// write.
    pub(crate) fn output(&self, path: &Path) -> Result<PathBuf, Usage> {
        let path = DatasetFormat::applied(self.format, path)?;
        match Format::from_path(&path).map_err(Usage::new)? {
            Format::Csv | Format::Parquet => Err(Usage::new(format!(
                "{}: expected a name that ends in .json, .msgpack or .msgpack.zst; `diode convert` makes the others",
                path.display()
            ))),
            _ => Ok(path),
        }
    }

    /// Measures problems into one file, or with `chunk_size` into numbered files with that many problems each:
    /// `name_1.json`, `name_2.json` …
    pub(crate) fn collect(
        &self,
        output: &Path,
        chunk_size: Option<usize>,
        problems: &[Problem],
        seed: u32,
        interrupt: &Interrupt,
    ) -> anyhow::Result<()> {
        let files = Output::new(output, chunk_size, true)?;
        files.check(self.resume)?;
        let collecting = Collecting {
            output: files,
            resume: self.resume,
            configs: ConfigArgs::all_of(self.search_space),
            devices: self.devices.clone(),
            pack_server: self.packs.clone(),
            seed: seed.into(),
            budget: None,
        };
        let in_files = collecting.run(problems, interrupt)?.in_file;
        if in_files == 0 {
            bail!("{}: nothing was measured", output.display());
        }
        Ok(())
    }
}

/// The problems of a shape set. Prints how many repeated problems are left out.
pub(crate) fn problems_of(shapeset: &Path, ops: &[diode_core::Op]) -> anyhow::Result<Vec<Problem>> {
    let (problems, repeated) = read_shapeset(shapeset, ops)?;
    if repeated > 0 {
        say!("{} repeated in the shape set, measured once", output::count(repeated, "problem"));
    }
    Ok(problems)
}
