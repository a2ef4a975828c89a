use std::path::PathBuf;

use clap::Args;
use diode_core::Dataset;
use diode_formats::Format;

use super::files;
use crate::failure::Usage;
use crate::output;

/// Convert a dataset between formats, chosen by the extension
///
/// .json and .msgpack are torch-diode's forms; .msgpack.zst is columnar and the
/// only one that holds everything. What a format cannot hold is refused.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  diode convert old_dataset.json new_dataset.msgpack.zst")]
pub(crate) struct Convert {
    /// Dataset to read; its format is recognised by its content
    #[arg(value_name = "IN")]
    input: PathBuf,

    /// File to write: .json, .msgpack or .msgpack.zst
    #[arg(value_name = "OUT")]
    output: PathBuf,

    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
}

impl Convert {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let to = Format::from_path(&self.output).map_err(Usage::new)?;
        files::check_may_write(&self.output, self.force)?;
        let decoded = diode_formats::read_file(&self.input)?;
        diode_formats::write_file(&self.output, &decoded.datasets)?;
        let total = |count: fn(&Dataset) -> usize| decoded.datasets.iter().map(count).sum();
        output::text_out(&format!(
            "{} ({}) → {} ({to}): {}, {}, {}\n",
            self.input.display(),
            decoded.format,
            self.output.display(),
            output::count(total(|dataset| dataset.solutions.len()), "problem"),
            output::count(total(Dataset::timings), "timing"),
            output::count(total(Dataset::failures), "failure"),
        ))
    }
}
