use clap::Args;
use clap_complete::Shell;

use crate::output;

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
    /// Prints the script for a command line.
    pub(crate) fn run(self, cli: &clap::Command) -> anyhow::Result<()> {
        // Hidden commands are not completed. `help` completes the names of commands, so clap must generate it
        // anew.
        let is_shown = |command: &&clap::Command| !command.is_hide_set() && command.get_name() != "help";
        let shown = cli.get_subcommands().filter(is_shown).cloned();
        let mut shown = clap::Command::new("diode")
            .version(env!("CARGO_PKG_VERSION"))
            .propagate_version(true)
            .subcommands(shown);
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut shown, "diode", &mut script);
        output::script_out(&String::from_utf8_lossy(&script))
    }
}
