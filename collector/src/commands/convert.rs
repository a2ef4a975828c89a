use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use diode_core::Dataset;
use diode_formats::{Format, Reduced, left_out, losses, reduce};

use crate::failure::Usage;
use crate::input::datasets;
use crate::output::log::Progress;
use crate::output::{self, files};

/// Convert a dataset between formats, chosen by the extension
///
/// .msgpack.zst is columnar and holds everything; .csv and .parquet have one row
/// per timing; .json and .msgpack are torch-diode's forms. What a format cannot
/// hold is refused, unless --lossy lets it go.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  diode convert old_dataset.json new_dataset.msgpack.zst\n  \
                        diode convert measured.msgpack.zst measured.parquet")]
pub(crate) struct Convert {
    /// Dataset to read; its format is recognised by its content
    #[arg(value_name = "IN")]
    input: PathBuf,

    /// File to write: .msgpack.zst, .csv, .parquet, .json or .msgpack
    #[arg(value_name = "OUT")]
    output: PathBuf,

    /// Drop what OUT's format cannot hold, and say what that is
    #[arg(long)]
    lossy: bool,

    /// Replace OUT if it exists
    #[arg(long)]
    force: bool,
}

impl Convert {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let to = Format::from_path(&self.output).map_err(Usage::new)?;
        files::check_may_write(&self.output, self.force)?;
        let decoded = datasets::read_files(std::slice::from_ref(&self.input))?.swap_remove(0);
        let losses = losses(to, &decoded.datasets);
        if let Some(losses) = losses.as_ref().filter(|_| !self.lossy) {
            bail!(
                "{}: {to} cannot hold {losses}; write a .msgpack.zst file (columnar) instead, or add --lossy to \
                 drop it",
                self.output.display()
            );
        }
        let Reduced { datasets, left_out: unlike } = match losses {
            Some(_) => reduce(to, &decoded.datasets),
            None => Reduced { datasets: decoded.datasets, left_out: Vec::new() },
        };
        let mut writing = Progress::new(1, "file");
        writing.set(0, &format!("writing {}", self.output.display()));
        diode_formats::write_file(&self.output, &datasets)?;
        drop(writing);
        if let Some(losses) = losses {
            say!("dropped, since {to} cannot hold it: {losses}");
        }
        for sentence in unlike {
            say!("{sentence}");
        }
        let left_out = left_out(to, &datasets);
        if !left_out.is_empty() {
            say!("left out, since {to} has no place for it: {}", left_out.join(", "));
        }
        let total = |count: fn(&Dataset) -> usize| datasets.iter().map(count).sum();
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
