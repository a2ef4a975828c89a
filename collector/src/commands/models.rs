mod contribute;
mod contributed;

use clap::{Args, Subcommand};
use diode_api::{Contribution, ModelSummary};

/// Contribute models to a server, and see what becomes of them
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode models contribute mine.safetensors --description 'trained on 900 decode shapes' \
                  --licence 'MIT OR Apache-2.0' --server https://diode.example.org\n  \
                  diode models contributed --server https://diode.example.org"
)]
pub(crate) struct Models {
    #[command(subcommand)]
    command: ModelsCommand,
}

#[derive(Debug, Subcommand)]
enum ModelsCommand {
    Contribute(contribute::Contribute),
    Contributed(contributed::Contributed),
}

impl Models {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self.command {
            ModelsCommand::Contribute(command) => command.run(),
            ModelsCommand::Contributed(command) => command.run(),
        }
    }
}

/// The state of a contributed model in one line: `0123456789abcdef  nvidia-h200  evaluated: …`.
fn line(model: &ModelSummary, about: &Contribution) -> String {
    let found = match &about.figures {
        Some(figures) => figures.why.as_str(),
        None => "not judged yet",
    };
    let said = if about.reason.is_empty() { String::new() } else { format!("; {}", about.reason) };
    format!("{}  {}  {}{said}  ({found})\n", model.id, model.hardware, about.state)
}
