use std::path::PathBuf;

use clap::Args;
use diode_core::Op;

use super::collecting::{CollectingArgs, problems_of};
use super::datasets::mention_losses;
use crate::input::arguments::whole;
use crate::interrupt::Interrupt;

/// Time every config on the problems of a shape set
///
/// Ops, batches and outputs are measured as the set has them. `collect --shapeset`
/// does the same and keeps more of what was measured.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode collect-shapeset --shapeset shapes.json --output shapes.msgpack --operations mm bmm"
)]
pub(crate) struct CollectShapeset {
    /// Shape set: torch-diode's JSON, MessagePack or CSV
    #[arg(long, value_name = "FILE")]
    shapeset: PathBuf,

    /// File to write: .msgpack, .json or .msgpack.zst
    #[arg(long, value_name = "FILE", default_value = "operation_shapeset_data.msgpack")]
    output: PathBuf,

    /// Operators to measure [default: all in the set]
    #[arg(long, alias = "ops", value_name = "OPS", value_delimiter = ',', num_args = 1..)]
    operations: Vec<Op>,

    /// Seed of the inputs that kernels are run on
    #[arg(long, default_value_t = 42, value_parser = whole::<u32>)]
    seed: u32,

    #[command(flatten)]
    collecting: CollectingArgs,
}

impl CollectShapeset {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let output = self.collecting.output(&self.output)?;
        mention_losses(&[&output]);
        let problems = problems_of(&self.shapeset, &self.operations)?;
        self.collecting.collect(&output, None, &problems, self.seed, &Interrupt::install()?)
    }
}
