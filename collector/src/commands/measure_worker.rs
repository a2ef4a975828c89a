use std::io;

use clap::Args;

use crate::worker;

/// Launch kernels for a parent process that asks over stdin
#[derive(Debug, Args)]
pub(crate) struct MeasureWorker {}

impl MeasureWorker {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        worker::serve(io::stdin().lock(), io::stdout().lock())
    }
}
