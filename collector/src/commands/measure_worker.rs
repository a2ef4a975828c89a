use std::io;

use clap::Args;

use crate::devices::cpu::serve;

/// Launch kernels for a parent process that asks over stdin
#[derive(Debug, Args)]
pub(crate) struct MeasureWorker {}

impl MeasureWorker {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        serve(io::stdin().lock(), io::stdout().lock())
    }
}
