//! The command line. One variant per command; each module of [`commands`] holds
//! one command's flags and what it does.

use clap::{Parser, Subcommand};

use crate::commands;

/// Community GPU matmul knowledge: measure it, share it, learn from it
#[derive(Debug, Parser)]
#[command(
    name = "diode",
    version,
    propagate_version = true,
    after_help = "Example:\n  diode collect --output cpu.msgpack.zst --num-shapes 20 --max-size 512\n  \
                  diode upload cpu.msgpack.zst --server http://127.0.0.1:8080"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Detect(commands::detect::Detect),
    Shapes(commands::shapes::Shapes),
    Collect(commands::collect::Collect),
    Upload(commands::upload::Upload),
    Convert(commands::convert::Convert),
    Stats(commands::stats::Stats),
    Table(commands::table::Table),
    Train(commands::train::Train),
    Evaluate(commands::evaluate::Evaluate),
    Predict(commands::predict::Predict),
    #[command(hide = true)]
    MeasureWorker(commands::measure_worker::MeasureWorker),
}

impl Cli {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Detect(command) => command.run(),
            Command::Shapes(command) => command.run(),
            Command::Collect(command) => command.run(),
            Command::Upload(command) => command.run(),
            Command::Convert(command) => command.run(),
            Command::Stats(command) => command.run(),
            Command::Table(command) => command.run(),
            Command::Train(command) => command.run(),
            Command::Evaluate(command) => command.run(),
            Command::Predict(command) => command.run(),
            Command::MeasureWorker(command) => command.run(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed_and_every_command_has_an_example() {
        let cli = Cli::command();
        cli.clone().debug_assert();
        for command in cli.get_subcommands().filter(|command| !command.is_hide_set()) {
            let example = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let start = format!("Example:\n  diode {}", command.get_name());
            assert!(example.starts_with(&start), "{}: {example}", command.get_name());
            assert!(command.get_about().is_some(), "{}", command.get_name());
        }
    }
}
