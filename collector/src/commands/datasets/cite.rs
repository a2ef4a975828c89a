use clap::Args;

use super::find;
use crate::output;
use crate::server::ServerArgs;

/// Print how to cite a snapshot
#[derive(Debug, Args)]
pub(super) struct Cite {
    /// Such as nvidia-h200@3; nvidia-h200 is its newest
    name: String,

    /// For BibTeX
    #[arg(long)]
    bibtex: bool,

    #[command(flatten)]
    server: ServerArgs,

    /// Print one JSON document
    #[arg(long, conflicts_with = "bibtex")]
    json: bool,
}

impl Cite {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let citation = find(&self.server.client()?, &self.name)?.citation;
        if self.json {
            return output::json(&citation);
        }
        output::text_out(&if self.bibtex { citation.bibtex } else { format!("{}\n", citation.text) })
    }
}
