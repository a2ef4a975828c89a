use std::io;
use std::path::PathBuf;

use clap::Args;

use crate::devices::gpu::vendor::Vendor;
use crate::devices::gpu::{WorkerOptions, serve};

/// Launch kernels on a GPU for a parent process that asks over stdin
#[derive(Debug, Args)]
pub(crate) struct MeasureGpu {
    #[arg(long, value_parser = crate::input::arguments::whole::<u32>)]
    device: u32,
    #[arg(long, value_parser = Vendor::of_backend)]
    backend: Vendor,
    #[arg(long)]
    kernels: Vec<PathBuf>,
    #[arg(long)]
    library: Option<PathBuf>,
}

impl MeasureGpu {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let Self { device, backend, kernels, library } = self;
        let options = WorkerOptions { device, vendor: backend, packs: kernels, library };
        serve(&options, io::stdin().lock(), io::stdout().lock())
    }
}
