//! The command line: an enum with one variant per command. Each module of [`commands`] holds a command's flags and
//! runs it.

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use crate::commands;
use crate::commands::predecessor::accept_search_mode;
use crate::devices::{cpu, gpu};
use crate::output::log;

/// Community GPU matmul knowledge: measure it, share it, learn from it
#[derive(Debug, Parser)]
#[command(
    name = "diode",
    version,
    propagate_version = true,
    after_help = "Example:\n  diode predict 16x4096x14336 --hardware nvidia-h200\n  \
                  diode collect --output mine.msgpack.zst --num-shapes 20 --max-size 512"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,

    /// Print results, warnings and errors only
    #[arg(long, global = true, help_heading = "Output")]
    quiet: bool,

    /// How lines on stderr are written: text, or json with one document a line, progress included
    #[arg(long, env = "DIODE_LOG_FORMAT", global = true, value_enum, value_name = "FORMAT", default_value_t = log::Format::Text, help_heading = "Output", hide_possible_values = true)]
    log_format: log::Format,
}

/// Declares the commands. `completions` stands apart, because it alone needs the whole command line.
macro_rules! commands {
    ($($(#[$hidden:meta])? $name:ident($command:path),)*) => {
        #[derive(Debug, Subcommand)]
        enum Command {
            $($(#[$hidden])? $name($command),)*
            Completions(commands::completions::Completions),
        }

        impl Cli {
            pub(crate) fn run(self) -> anyhow::Result<()> {
                log::write_as(self.log_format, self.quiet);
                match self.command {
                    $(Command::$name(command) => command.run(),)*
                    Command::Completions(completions) => completions.run(&command()),
                }
            }
        }
    };
}

commands! {
    Detect(commands::detect::Detect),
    Kernels(commands::kernels::Kernels),
    Shapes(commands::shapes::Shapes),
    Collect(commands::collect::Collect),
    #[command(hide = true)]
    CollectShapeset(commands::predecessor_collecting::CollectShapeset),
    #[command(hide = true)]
    CreateValidation(commands::predecessor_collecting::CreateValidation),
    #[command(hide = true)]
    CollectAndTrain(commands::predecessor_collecting::CollectAndTrain),
    Agent(commands::agent::Agent),
    Want(commands::want::Want),
    Login(commands::login::Login),
    Logout(commands::login::Logout),
    Upload(commands::upload::Upload),
    Datasets(commands::datasets::Datasets),
    Models(commands::models::Models),
    Convert(commands::convert::Convert),
    #[command(hide = true)]
    ConvertJsonToMsgpack(commands::predecessor::ConvertJsonToMsgpack),
    Import(commands::import::Import),
    Stats(commands::stats::Stats),
    Status(commands::status::Status),
    Table(commands::table::Table),
    Train(commands::train::Train),
    Tune(commands::tune::Tune),
    Evaluate(commands::evaluate::Evaluate),
    #[command(hide = true)]
    ValidateModel(commands::predecessor::ValidateModel),
    #[command(hide = true)]
    ValidateMaxAutotune(commands::predecessor::ValidateMaxAutotune),
    Predict(commands::predict::Predict),
    #[command(hide = true)]
    MeasureWorker(cpu::MeasureCpu),
    #[command(hide = true)]
    MeasureGpu(gpu::MeasureGpu),
}

/// The commands that `diode --help` describes, grouped by purpose.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Choose kernels", &["predict", "tune", "table", "models"]),
    ("Measure", &["collect", "agent", "status"]),
    ("Share and look at datasets", &["upload", "datasets", "convert"]),
    ("Learn", &["train", "evaluate"]),
];

/// The commands that `diode --help` only names.
const MORE: [&str; 11] = [
    "detect",
    "kernels",
    "shapes",
    "stats",
    "import",
    "want",
    "login",
    "logout",
    "completions",
    COMPAT,
    "help",
];

/// The command that groups the commands of torch-diode. They also run without it.
const COMPAT: &str = "compat";
const COMPAT_COMMANDS: [&str; 6] = [
    "collect-shapeset",
    "create-validation",
    "collect-and-train",
    "validate-model",
    "validate-max-autotune",
    "convert-json-to-msgpack",
];

/// The whole command line, as it is parsed and completed.
pub(crate) fn command() -> clap::Command {
    let cli = with_negative_numbers(accept_search_mode(Cli::command()));
    let old = COMPAT_COMMANDS
        .iter()
        .filter_map(|name| cli.find_subcommand(name))
        .map(|old| old.clone().hide(false));
    let compat = clap::Command::new(COMPAT)
        .about("Run a command of torch-diode")
        .after_help(
            "Example:\n  diode compat collect-shapeset --shapeset shapes.json --output shapes.msgpack",
        )
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(old.collect::<Vec<_>>());
    let mut cli = with_compact_help(cli.subcommand(compat));
    cli.build();
    let groups = grouped(&cli);
    cli.help_template(format!(
        "{{about}}{{after-help}}\n\n{{usage-heading}} {{usage}}\n{groups}\nOptions:\n{{options}}"
    ))
}

/// Gives each command a help of few lines: the example before the flags, each flag beside its description, and the same
/// for `-h` and `--help`.
fn with_compact_help(command: clap::Command) -> clap::Command {
    const TEMPLATE: &str = "{about}{before-help}{after-help}\n\n{usage-heading} {usage}\n\n{all-args}\n";
    let details = command.get_long_about().map(ToString::to_string);
    let details = details.as_deref().and_then(|text| Some(text.split_once("\n\n")?.1.to_owned()));
    let command = match details {
        Some(details) => command.before_help(format!("\n\n{details}")).long_about(None),
        None => command,
    };
    let command = if command.get_after_help().is_some() { command.help_template(TEMPLATE) } else { command };
    let help = clap::Arg::new("help").short('h').long("help").action(clap::ArgAction::HelpShort);
    let command = command.disable_help_flag(true).arg(help.help("Print help"));
    command.mut_subcommands(with_compact_help)
}

/// Lets clap read the `-5` of `--m -5` as a value, so that the flag's own check refuses it. Otherwise clap would call
/// `-5` an unknown flag.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let allow = |flag: clap::Arg| {
        let takes_values = flag.get_action().takes_values();
        flag.allow_negative_numbers(takes_values)
    };
    command.mut_args(allow).mut_subcommands(with_negative_numbers)
}

fn grouped(cli: &clap::Command) -> String {
    let width = GROUPS.iter().flat_map(|(_, names)| *names).map(|name| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (heading, names) in GROUPS {
        let _ = writeln!(text, "\n{heading}:");
        for name in names {
            let about = cli.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {name:<width$}  {about}");
        }
    }
    let _ = writeln!(text, "\nMore: {}\n`diode COMMAND --help` says what each does.", MORE.join(", "));
    text
}

impl Cli {
    /// Parses arguments. As in torch-diode, some flags may stand before the command.
    pub(crate) fn read(arguments: Vec<OsString>) -> Result<Self, clap::Error> {
        let mut arguments = arguments;
        let named = |at: usize| arguments.get(at).and_then(|word| word.to_str());
        if named(1) == Some(COMPAT) && named(2).is_some_and(|name| COMPAT_COMMANDS.contains(&name)) {
            arguments.remove(1);
        }
        let mut command = command();
        let has_flag = |name: &str, flag: &str| {
            let takes = |argument: &clap::Arg| {
                argument.get_long() == Some(flag)
                    || argument.get_all_aliases().is_some_and(|aliases| aliases.contains(&flag))
            };
            command.find_subcommand(name).is_some_and(|command| command.get_arguments().any(takes))
        };
        let (arguments, notes) = diode_compat::after_the_command(arguments, has_flag);
        let cli = Self::from_arg_matches(&command.try_get_matches_from_mut(arguments)?)?;
        for note in notes {
            say!("note: {note}");
        }
        Ok(cli)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed_and_every_command_has_an_example() {
        let cli = command();
        cli.clone().debug_assert();
        let shown = |command: &&clap::Command| !command.is_hide_set() && command.get_name() != "help";
        for command in cli.get_subcommands().filter(shown) {
            let example = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let start = format!("Example:\n  diode {}", command.get_name());
            assert!(example.starts_with(&start), "{}: {example}", command.get_name());
            assert!(command.get_about().is_some(), "{}", command.get_name());
        }
    }

    #[test]
    fn no_flag_answers_in_the_words_of_a_parser() {
        let cli = command();
        let nested = |command: &clap::Command| {
            let names = command
                .get_subcommands()
                .map(|nested| vec![command.get_name().to_owned(), nested.get_name().to_owned()]);
            names.chain([vec![command.get_name().to_owned()]]).collect::<Vec<_>>()
        };
        for path in cli.get_subcommands().filter(|command| command.get_name() != "help").flat_map(nested) {
            let command = path.iter().try_fold(&cli, |command, name| command.find_subcommand(name)).unwrap();
            for flag in command.get_arguments().filter_map(clap::Arg::get_long) {
                let line = ["diode".to_owned()].into_iter().chain(path.clone());
                let line = line.chain([format!("--{flag}"), "x1".to_owned()]);
                let error = cli.clone().try_get_matches_from(line).map(|_| ()).err();
                let words = error.map(|error| error.to_string()).unwrap_or_default();
                for raw in ["invalid digit", "invalid float"] {
                    assert!(!words.contains(raw), "{path:?} --{flag}: {words}");
                }
            }
        }
    }

    #[test]
    fn every_command_is_listed_once() {
        let cli = command();
        let mut commands: Vec<&str> =
            cli.get_subcommands().filter(|c| !c.is_hide_set()).map(clap::Command::get_name).collect();
        let mut listed: Vec<&str> =
            GROUPS.iter().flat_map(|(_, names)| *names).chain(&MORE).copied().collect();
        assert!(GROUPS.iter().map(|(_, names)| names.len()).sum::<usize>() <= 12);
        commands.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, commands);
    }
}
