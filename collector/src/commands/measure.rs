//! The measuring processes, which a parent process starts and asks over stdin.

use std::io;
use std::path::PathBuf;

use clap::Args;

use crate::devices::cpu;
use crate::devices::gpu::{self, GpuVendor, WorkerOptions};

/// Launch kernels for a parent process that asks over stdin
#[derive(Debug, Args)]
pub(crate) struct MeasureCpu {}

impl MeasureCpu {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        cpu::serve(io::stdin().lock(), io::stdout().lock())
    }
}

/// Launch kernels on a GPU for a parent process that asks over stdin
#[derive(Debug, Args)]
pub(crate) struct MeasureGpu {
    #[arg(long, value_parser = crate::input::arguments::whole::<u32>)]
    device: u32,
    #[arg(long, value_parser = GpuVendor::of_backend)]
    backend: GpuVendor,
    #[arg(long)]
    kernels: Vec<PathBuf>,
    #[arg(long)]
    library: Option<PathBuf>,
}

impl MeasureGpu {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let Self { device, backend, kernels, library } = self;
        let options = WorkerOptions { device, vendor: backend, packs: kernels, library };
        gpu::serve(&options, io::stdin().lock(), io::stdout().lock())
    }
}
