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
        let cli = cli::command();
        // Nobody types what is hidden.
        let shown = cli.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
        let mut shown = clap::Command::new("diode")
            .args(cli.get_arguments().cloned())
            .subcommands(shown)
            .disable_help_subcommand(true);
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut shown, "diode", &mut script);
        output::text_out(&String::from_utf8_lossy(&script))
    }
}
