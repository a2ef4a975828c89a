//! The command line.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use tokio::sync::watch;

use crate::admin::{AccountCommand, Act, List, WithData};
use crate::backend::Backend;
use crate::serve::{serve, signalled};
use crate::settings::{Data, Explained, Settings, SettingsFile, Training, WrongSetting, address, explain};
use crate::store::{Now, work_on};
use crate::{admin, metrics};

/// The Diode server: HTTP API, dashboard and training worker.
#[derive(Debug, Parser)]
#[command(name = "diode-server", version)]
pub struct Cli {
    /// How the log on stderr is written: lines to read, or JSON for programs
    #[arg(long, global = true, env = "DIODE_LOG_FORMAT", value_enum, default_value_t, value_name = "FORMAT")]
    pub log_format: LogFormat,

    #[command(subcommand)]
    pub command: Command,
}

/// How the log is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve the API and the dashboard, and work on jobs
    Serve {
        #[command(flatten)]
        settings: Box<Settings>,
        /// Leave the jobs to `diode-server worker`
        #[arg(long)]
        no_worker: bool,
    },
    /// Only work on jobs
    Worker {
        #[command(flatten)]
        training: Training,
        // Not the setting of this name: the address in the file is the server's, which may run on the same machine.
        /// An address for figures in the format of Prometheus, at /metrics [default: none]
        #[arg(
            id = "metrics_of_worker",
            long = "metrics-listen",
            env = "DIODE_METRICS_LISTEN",
            value_name = "ADDRESS",
            value_parser = address
        )]
        metrics_listen: Option<SocketAddr>,
        #[command(flatten)]
        data: Data,
    },
    /// Bring the tables up to date and end
    Migrate {
        #[command(flatten)]
        data: Data,
    },
    /// Print what `serve` would go by, and for each setting why
    Settings {
        #[command(flatten)]
        settings: Box<Settings>,
    },
    /// Look for what is wrong with settings, database, disk, clock, TLS, proxy and versions, and say what to do
    Doctor {
        #[command(flatten)]
        settings: Box<Settings>,
    },
    /// Look after the data
    Admin {
        #[command(subcommand)]
        command: AdminCommand,
    },
}

#[derive(Debug, Subcommand)]
pub enum AdminCommand {
    #[command(flatten)]
    Accounts(AccountCommand),
    #[command(flatten)]
    Act(WithData<Act>),
    #[command(flatten)]
    List(WithData<List>),
    /// Import the datasets and models of a folder; doing so again changes nothing
    Seed {
        /// A folder of HEURISTIC/HARDWARE/*.safetensors and HEURISTIC/HARDWARE/data/*
        folder: PathBuf,
        #[command(flatten)]
        data: Data,
    },
    /// Recompute every leaderboard entry and standing from the solutions, look for every blob, and report what is wrong
    Verify {
        #[command(flatten)]
        data: Data,
    },
    /// Save the database and all blobs into a new folder, while servers work
    Backup {
        /// A folder that is empty or not there yet
        folder: PathBuf,
        #[command(flatten)]
        data: Data,
    },
    /// Read a backup, and report what in it is damaged or missing
    CheckBackup {
        /// The folder of a backup
        folder: PathBuf,
    },
    /// Bring a backup back, to a database and a place for blobs that are empty; then verify them
    RestoreBackup {
        /// The folder of a backup
        folder: PathBuf,
        #[command(flatten)]
        data: Data,
    },
    /// Copy the SQLite database into an empty Postgres database and verify it; stop the servers first
    ToPostgres {
        /// Such as postgres://USER@HOST/DATABASE
        // A variable, too, because other users can read a command line.
        #[arg(env = "DIODE_TO_POSTGRES", value_name = "URL", hide_env_values = true)]
        to: String,
        #[command(flatten)]
        data: Data,
    },
    /// Remove blobs that no row names; those younger than an hour are kept
    Sweep {
        /// Remove the younger ones, too: only while no server works on the data, which may be about to name them
        #[arg(long)]
        young: bool,
        #[command(flatten)]
        data: Data,
    },
}

impl Cli {
    /// Reads the arguments, the variables and the settings file. Ends the process after a wrong argument.
    pub fn read() -> Result<Self, WrongSetting> {
        let (matches, _) = matches()?;
        Ok(Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit()))
    }

    /// Runs the command. The exit code is 0 for done and 1 for failed. After an error about a setting, `main` exits
    /// with 2.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Serve { settings, no_worker } => serve(&settings, !no_worker, stop_signal()).await?,
            Command::Worker { training, metrics_listen, data } => {
                work(&data, training, metrics_listen).await?
            }
            Command::Migrate { data } => {
                Backend::open(&data).await?.store.close().await;
                say(&"the database is up to date");
            }
            Command::Settings { .. } => admin::print(&explained()?)?,
            Command::Doctor { settings } => {
                let found = admin::doctor::examine(&settings).await;
                admin::print(&found.iter().map(|one| format!("{one}\n")).collect::<String>())?;
                if found.iter().any(admin::doctor::Finding::is_fault) {
                    return Ok(ExitCode::FAILURE);
                }
            }
            Command::Admin { command: AdminCommand::Accounts(command) } => {
                admin::print(&command.run().await?)?
            }
            Command::Admin { command: AdminCommand::Act(command) } => admin::print(&command.run().await?)?,
            Command::Admin { command: AdminCommand::List(command) } => admin::print(&command.run().await?)?,
            Command::Admin { command: AdminCommand::Seed { folder, data } } => {
                let backend = Backend::open(&data).await?;
                let outcome = admin::seed(&backend, &folder).await;
                backend.store.close().await;
                say(&outcome?);
            }
            Command::Admin { command: AdminCommand::Verify { data } } => {
                let backend = Backend::open_existing(&data).await?;
                let outcome = admin::verify(&backend).await;
                backend.store.close().await;
                let report = outcome?;
                say(&report);
                if !report.is_clean() {
                    return Ok(ExitCode::FAILURE);
                }
            }
            Command::Admin { command: AdminCommand::Backup { folder, data } } => {
                let backend = Backend::open_existing(&data).await?;
                let made = admin::backup::make(&backend, &data.database_url, &folder).await;
                backend.store.close().await;
                let made = made?;
                say(&made);
                if !made.is_complete() {
                    return Ok(ExitCode::FAILURE);
                }
            }
            Command::Admin { command: AdminCommand::CheckBackup { folder } } => {
                let (manifest, problems) = admin::backup::check(&folder).await?;
                for problem in &problems {
                    say(problem);
                }
                say(&manifest);
                say(&format_args!("{} problems", problems.len()));
                if !problems.is_empty() || !manifest.is_complete() {
                    return Ok(ExitCode::FAILURE);
                }
            }
            Command::Admin { command: AdminCommand::RestoreBackup { folder, data } } => {
                let restored = admin::backup::restore(&data, &folder).await?;
                say(&restored);
                if !restored.verified.is_clean() {
                    return Ok(ExitCode::FAILURE);
                }
            }
            Command::Admin { command: AdminCommand::ToPostgres { to, data } } => {
                let moved = admin::backup::move_to_postgres(&data, &to).await?;
                say(&moved);
                if !moved.verified.is_clean() {
                    return Ok(ExitCode::FAILURE);
                }
            }
            Command::Admin { command: AdminCommand::Sweep { young, data } } => {
                let backend = Backend::open_existing(&data).await?;
                let outcome = admin::sweep(&backend, young, Now::read()).await;
                backend.store.close().await;
                say(&outcome?);
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// What the arguments say, on top of the settings file that they name.
fn matches() -> Result<(ArgMatches, SettingsFile), WrongSetting> {
    let command = parser();
    let first = command.clone().get_matches();
    let file = SettingsFile::read(of_subcommand(&first))?;
    Ok((file.under(command).get_matches(), file))
}

fn parser() -> clap::Command {
    let mut built = Cli::command();
    built.build();
    with_usage(Cli::command(), &mut built)
}

/// After a wrong argument, shows what a command takes. By itself, clap would add the flags that variables have set.
fn with_usage(command: clap::Command, built: &mut clap::Command) -> clap::Command {
    command.mut_subcommands(|subcommand| {
        let Some(built) = built.find_subcommand_mut(subcommand.get_name()) else { return subcommand };
        let usage = built.render_usage().to_string();
        with_usage(subcommand, built).override_usage(usage.trim_start_matches("Usage: ").to_owned())
    })
}

/// What was read for the innermost subcommand.
fn of_subcommand(matches: &ArgMatches) -> &ArgMatches {
    matches.subcommand().map_or(matches, |(_, inner)| of_subcommand(inner))
}

/// The settings in force as a table. It reads the arguments again, because only their parser can say where a value
/// came from.
fn explained() -> anyhow::Result<String> {
    let (matches, file) = matches()?;
    let settings = explain(of_subcommand(&matches), &file)?;
    let wide = |text: fn(&Explained) -> &str| {
        settings.iter().map(|one| text(one).chars().count()).max().unwrap_or_default()
    };
    let (names, values) = (wide(|one| &one.name), wide(|one| &one.value));
    let line =
        |Explained { name, value, why }: &Explained| format!("{name:names$}  {value:values$}  {why}\n");
    Ok(settings.iter().map(line).collect())
}

async fn work(data: &Data, training: Training, metrics_listen: Option<SocketAddr>) -> anyhow::Result<()> {
    let figures = match metrics_listen {
        Some(address) => Some(metrics::listening(address).await?),
        None => None,
    };
    let backend = Backend::open(data).await?;
    let _working = work_on(&data.database_url)?;
    let store = backend.store.clone();
    let (tell, stopping) = watch::channel(false);
    let figures = figures.map(|listener| metrics::tell(listener, &backend, stopping.clone()));
    let working = tokio::spawn(crate::jobs::worker::run(backend.clone(), stopping.clone()));
    let looking = tokio::spawn(crate::jobs::trainings::run(backend.clone(), training, stopping.clone()));
    let refreshing = tokio::spawn(crate::boards::run(backend, stopping));
    stop_signal().await;
    let _ = tell.send(true);
    working.await?;
    looking.await?;
    refreshing.await?;
    if let Some(figures) = figures {
        figures.await?;
    }
    store.close().await;
    Ok(())
}

async fn stop_signal() {
    if let Err(error) = signalled().await {
        tracing::error!("signals cannot be heard, so only a kill will stop this: {error}");
        std::future::pending::<()>().await;
    }
}

/// Writes a line to stderr. If its reader is gone, the command goes on without it.
fn say(line: &impl Display) {
    _ = writeln!(io::stderr().lock(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_are_consistent() {
        parser().debug_assert();
    }

    #[test]
    fn each_command_says_what_it_does_and_takes() {
        fn look(command: &clap::Command) {
            let abouts: Vec<String> =
                command.get_subcommands().map(|one| one.get_about().unwrap().to_string()).collect();
            let different: std::collections::BTreeSet<&String> = abouts.iter().collect();
            assert_eq!(different.len(), abouts.len(), "{abouts:?}");
            command.get_subcommands().for_each(look);
        }
        look(&parser());
        let wrong = ["diode-server", "admin", "remove", "--s3-ca", "ca.pem"];
        let said = parser().try_get_matches_from(wrong).unwrap_err().to_string();
        assert!(said.contains("Usage: diode-server admin remove [OPTIONS] --reason <TEXT>"), "{said}");
        assert!(!said.contains("--s3-ca"), "{said}");
    }
}
