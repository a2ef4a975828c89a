mod cite;
mod list;
mod pull;

use clap::{Args, Subcommand};
use diode_api::{SnapshotDetail, SnapshotName, SnapshotState, SnapshotSummary};
use diode_core::ids::HardwareSlug;

use crate::failure::Usage;
use crate::server::Client;

/// Datasets of a server that no longer change: list, download and cite them
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  diode datasets list --server https://diode.example.org\n  \
                        diode datasets pull nvidia-h200@3 --format parquet --server https://diode.example.org\n  \
                        diode datasets cite nvidia-h200@3 --bibtex --server https://diode.example.org")]
pub(crate) struct Datasets {
    #[command(subcommand)]
    command: DatasetsCommand,
}

#[derive(Debug, Subcommand)]
enum DatasetsCommand {
    List(list::List),
    Pull(pull::Pull),
    Cite(cite::Cite),
}

impl Datasets {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.command {
            DatasetsCommand::List(command) => command.run(),
            DatasetsCommand::Pull(command) => command.run(),
            DatasetsCommand::Cite(command) => command.run(),
        }
    }
}

/// The snapshot with this name. For a name without a version, the newest snapshot of that hardware.
fn find(client: &Client, name: &str) -> anyhow::Result<SnapshotDetail> {
    let name = if name.contains('@') {
        name.parse::<SnapshotName>().map_err(Usage::new)?
    } else {
        let slug: HardwareSlug = name.parse().map_err(Usage::new)?;
        let listed: Vec<SnapshotSummary> = client.get(&format!("/snapshots?hardware={slug}"))?;
        let newest = listed.into_iter().find(|snapshot| snapshot.state == SnapshotState::Whole);
        newest.ok_or_else(|| anyhow::anyhow!("{} has no snapshot of {slug}", client.address()))?.name
    };
    client.get(&format!("/snapshots/{name}"))
}
