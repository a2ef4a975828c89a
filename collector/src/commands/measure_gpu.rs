use std::io;
use std::path::PathBuf;

use clap::Args;

use crate::devices::gpu::{WorkerOptions, serve};

/// Launch kernels on a GPU for a parent process that asks over stdin
#[derive(Debug, Args)]
pub(crate) struct MeasureGpu {
    #[arg(long, value_parser = crate::input::arguments::whole::<u32>)]
    device: u32,
    #[arg(long)]
    kernels: PathBuf,
    #[arg(long)]
    library: Option<PathBuf>,
}

impl MeasureGpu {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let options = WorkerOptions { device: self.device, pack: self.kernels, library: self.library };
        serve(&options, io::stdin().lock(), io::stdout().lock())
    }
}
