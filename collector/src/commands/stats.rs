use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::Args;

use crate::input::arguments::whole;
use crate::input::datasets;
use crate::output;
use crate::statistics::Report;

/// Count what datasets hold and show their fastest configs
///
/// Per operator, input type with its scaling, and method: problems, timings, failures and their
/// reasons, the best rate and its share of the roofline; where the dataset says
/// it, how much repeats spread and how often the library beats every Triton config.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  diode stats cpu.msgpack.zst")]
pub(crate) struct Stats {
    /// Datasets to read, in any format, or folders of datasets
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// How many problems to show, the fastest first
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = whole::<usize>)]
    top: usize,

    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Stats {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let (mut formats, mut datasets) = (BTreeSet::new(), Vec::new());
        for decoded in datasets::decode(&self.files, &[])? {
            formats.insert(decoded.format.to_string());
            datasets.extend(decoded.datasets);
        }
        let format = formats.into_iter().collect::<Vec<_>>().join(", ");
        let report = Report::new(format, &datasets, self.top);
        if self.json { output::json(&report) } else { output::text_out(&report.in_words()) }
    }
}
