//! The measuring processes, which a parent process starts and asks over stdin.

use std::io;

use clap::Args;

use crate::devices::cpu;
use crate::devices::gpu::{self, WorkerOptions};

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
    #[command(flatten)]
    options: WorkerOptions,
}

impl MeasureGpu {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        gpu::serve(&self.options, io::stdin().lock(), io::stdout().lock())
    }
}
