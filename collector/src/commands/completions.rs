use clap::Args;
use clap::builder::PossibleValuesParser;
use clap_complete::Shell;

use diode_core::hardware::catalogue;
use diode_core::space::SpaceName;
use diode_core::{Bias, DType, Layout, Op, Scaling};

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
        let shown = cli.get_subcommands().filter(is_shown).cloned().map(with_values);
        let mut shown = clap::Command::new("diode")
            .version(env!("CARGO_PKG_VERSION"))
            .propagate_version(true)
            .subcommands(shown);
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut shown, "diode", &mut script);
        output::script_out(&String::from_utf8_lossy(&script))
    }
}

/// Names the values of flags that read texts of their own, for shells to offer.
fn with_values(command: clap::Command) -> clap::Command {
    let name = |flag: clap::Arg| {
        let values: Vec<&'static str> = match flag.get_long().unwrap_or_default() {
            // clap keeps names for as long as the program runs.
            "hardware" | "simulate" | "as" => {
                catalogue().map(|hardware| &*hardware.slug.to_string().leak()).collect()
            }
            "op" | "ops" => Op::ALL.iter().map(|op| op.as_str()).collect(),
            "dtype" | "dtypes" => DType::ALL.iter().map(|dtype| dtype.as_str()).collect(),
            "space" => SpaceName::ALL.iter().map(|space| space.as_str()).collect(),
            "a-layout" | "b-layout" => Layout::ALL.iter().map(|layout| layout.as_str()).collect(),
            "bias" => Bias::ALL.iter().map(|bias| bias.as_str()).collect(),
            "scaling" => Scaling::ALL.iter().map(|scaling| scaling.as_str()).collect(),
            _ => return flag,
        };
        flag.value_parser(PossibleValuesParser::new(values)).hide_possible_values(true)
    };
    command.mut_args(name).mut_subcommands(with_values)
}
