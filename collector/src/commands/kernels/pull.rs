use clap::Args;

use crate::collect::bench::this_architecture;
use crate::kernels::PackCache;
use crate::output::{self, count};
use crate::server::{ServerArgs, packs, pull};

/// Pull a server's packs into this node's cache
///
/// `collect` and `agent` then find them there. Each is kept only if it is what its digest names.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode kernels pull --server https://diode.example.org --architecture sm_90"
)]
pub(super) struct Pull {
    #[command(flatten)]
    server: ServerArgs,

    /// GPUs to pull packs for, such as sm_90 or gfx942 [default: those of this node]
    #[arg(long, alias = "arch", value_name = "ARCH")]
    architecture: Option<String>,
}

impl Pull {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let arch = match self.architecture {
            Some(arch) => arch,
            None => this_architecture()?,
        };
        let client = self.server.client()?;
        let cache = PackCache::open()?;
        let listed = packs(&client, Some(&arch))?;
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
