use clap::Args;
use clap_complete::Shell;

use crate::{cli, output};

/// Print a script that completes `diode` commands in a shell
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode completions bash > ~/.local/share/bash-completion/completions/diode"
)]
pub(crate) struct Completions {
    /// Shell to complete in
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut cli::command(), "diode", &mut script);
        output::text_out(&String::from_utf8_lossy(&script))
    }
}
