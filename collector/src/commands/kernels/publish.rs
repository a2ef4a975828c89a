use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use diode_api::{MAX_PACK_BYTES, PackSummary};
use diode_formats::pack::Pack;

use crate::output::{self, count};
use crate::server::{ServerArgs, judge};

/// Publish a pack on a server, for agents and people to pull; for its administrators
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  diode login --server https://diode.example.org --scope admin\n  \
                        diode kernels publish h100.pack --server https://diode.example.org")]
pub(super) struct Publish {
    /// Pack to publish
    pack: PathBuf,

    #[command(flatten)]
    server: ServerArgs,

    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Publish {
    pub(super) fn run(self) -> anyhow::Result<()> {
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
        let sent = client.posting_bytes("/packs", bytes).send(file);
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
