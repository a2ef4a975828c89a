mod build;
mod info;

use clap::{Args, Subcommand};

use build::BuildArgs;
use info::Info;

/// Compile kernels ahead of time, or show what a pack of them holds
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode kernels build --arch sm_90 --dtypes bfloat16 --space full --out h200.pack\n  diode kernels info h200.pack"
)]
pub(crate) struct Kernels {
    #[command(subcommand)]
    command: KernelsCommand,
}

#[derive(Debug, Subcommand)]
enum KernelsCommand {
    Build(Box<BuildArgs>),
    Info(Info),
}

impl Kernels {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.command {
            KernelsCommand::Build(command) => command.run(),
            KernelsCommand::Info(command) => command.run(),
        }
    }
}
