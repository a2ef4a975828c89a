mod build;
mod info;
mod publish;
mod pull;

use clap::{Args, Subcommand};

use build::BuildArgs;
use info::Info;
use publish::Publish;
use pull::Pull;

/// Compile kernels ahead of time, show what a pack of them holds, publish and pull packs
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
    Publish(Publish),
    Pull(Pull),
}

impl Kernels {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.command {
            KernelsCommand::Build(command) => command.run(),
            KernelsCommand::Info(command) => command.run(),
            KernelsCommand::Publish(command) => command.run(),
            KernelsCommand::Pull(command) => command.run(),
        }
    }
}
