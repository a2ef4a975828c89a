//! The command line.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{CommandFactory as _, Parser, Subcommand, ValueEnum};
use tokio::sync::watch;

use crate::admin::{AccountCommand, ModelCommand, ModerationCommand, SnapshotCommand};
use crate::backend::Backend;
use crate::serve::{serve, signalled};
use crate::settings::{DataArgs, Explained, ServingArgs, Settings, TrainingArgs, explain};
use crate::store::Now;
use crate::{admin, metrics, refresh, trainings, worker};

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
        serving: ServingArgs,
        /// Leave the jobs to `diode-server worker`
        #[arg(long)]
        no_worker: bool,
        #[command(flatten)]
        data: DataArgs,
    },
    /// Only work on jobs
    Worker {
        #[command(flatten)]
        training: TrainingArgs,
        /// An address for figures in the format of Prometheus, at /metrics [default: none]
        #[arg(long, env = "DIODE_METRICS_LISTEN", value_name = "ADDRESS")]
        metrics_listen: Option<String>,
        #[command(flatten)]
        data: DataArgs,
    },
    /// Bring the tables up to date and end
    Migrate {
        #[command(flatten)]
        data: DataArgs,
    },
    /// Print what `serve` would go by, and for each setting why
    Settings {
        #[command(flatten)]
        serving: ServingArgs,
        #[command(flatten)]
        data: DataArgs,
    },
    /// Look after the data
    Admin {
        #[command(subcommand)]
        command: AdminCommand,
    },
}

#[derive(Debug, Subcommand)]
#[expect(clippy::large_enum_variant, reason = "one is parsed in the life of a program")]
pub enum AdminCommand {
    #[command(flatten)]
    Accounts(AccountCommand),
    #[command(flatten)]
    Moderation(ModerationCommand),
    #[command(flatten)]
    Models(ModelCommand),
    #[command(flatten)]
    Snapshots(SnapshotCommand),
    /// Import the datasets and models of a folder; doing so again changes nothing
    Seed {
        /// A folder of HEURISTIC/HARDWARE/*.safetensors and HEURISTIC/HARDWARE/data/*
        folder: PathBuf,
        #[command(flatten)]
        data: DataArgs,
    },
    /// Recompute every leaderboard entry and standing from the solutions, look for every blob, and report what is wrong
    Verify {
        #[command(flatten)]
        data: DataArgs,
    },
    /// Save the database and all blobs into a new folder, while servers work
    Backup {
        /// A folder that is empty or not there yet
        folder: PathBuf,
        #[command(flatten)]
        data: DataArgs,
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
        data: DataArgs,
    },
    /// Remove blobs that no row names; those younger than an hour are kept
    Sweep {
        /// Remove the younger ones, too: only while no server works on the data, which may be about to name them
        #[arg(long)]
        young: bool,
        #[command(flatten)]
        data: DataArgs,
    },
}

impl Cli {
    /// Runs the command. The exit code is 0 for done and 1 for failed. After an error about a setting, `main` exits
    /// with 2.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Serve { serving, no_worker, data } => {
                serve(&Settings::resolve(data, serving)?, !no_worker, stop_signal()).await?;
            }
            Command::Worker { training, metrics_listen, data } => {
                // The address in the settings file is the server's, which may run on the same machine. So it does not
                // count for a worker.
                let own = metrics_listen.is_some();
                let serving = ServingArgs { training, metrics_listen, ..ServingArgs::default() };
                let settings = Settings::resolve(data, serving)?;
                work(&settings, settings.metrics_listen.filter(|_| own)).await?;
            }
            Command::Migrate { data } => {
                open(data).await?.store.close().await;
                say(&"the database is up to date");
            }
            Command::Settings { .. } => admin::print(&explained()?)?,
            Command::Admin { command: AdminCommand::Accounts(command) } => {
                admin::print(&command.run().await?)?
            }
            Command::Admin { command: AdminCommand::Moderation(command) } => {
                admin::print(&command.run().await?)?
            }
            Command::Admin { command: AdminCommand::Models(command) } => admin::print(&command.run().await?)?,
            Command::Admin { command: AdminCommand::Snapshots(command) } => {
                admin::print(&command.run().await?)?
            }
            Command::Admin { command: AdminCommand::Seed { folder, data } } => {
                let backend = open(data).await?;
                let outcome = admin::seed(&backend, &folder).await;
                backend.store.close().await;
                say(&outcome?);
            }
            Command::Admin { command: AdminCommand::Verify { data } } => {
                let backend = open_existing(data).await?;
                let outcome = admin::verify(&backend).await;
                backend.store.close().await;
                let report = outcome?;
                say(&report);
                if !report.is_clean() {
                    return Ok(ExitCode::FAILURE);
                }
            }
            Command::Admin { command: AdminCommand::Backup { folder, data } } => {
                let settings = Settings::resolve(data, ServingArgs::default())?;
                let backend = Backend::open_existing(&settings).await?;
                let made = admin::backup::make(&backend, &settings.database_url, &folder).await;
                backend.store.close().await;
                let made = made?;
                say(&made);
                if !made.lost.is_empty() || !made.damaged.is_empty() {
                    return Ok(ExitCode::FAILURE);
                }
            }
            Command::Admin { command: AdminCommand::CheckBackup { folder } } => {
                let (manifest, problems) = admin::backup::check(&folder).await?;
                for problem in &problems {
                    say(problem);
                }
                let (blobs, wrong) = (manifest.blobs.len(), problems.len());
                say(&format_args!("the backup of {}: {blobs} blobs, {wrong} problems", manifest.made_at));
                if wrong > 0 {
                    return Ok(ExitCode::FAILURE);
                }
            }
            Command::Admin { command: AdminCommand::RestoreBackup { folder, data } } => {
                let settings = Settings::resolve(data, ServingArgs::default())?;
                let restored = admin::backup::restore(&settings, &folder).await?;
                say(&restored);
                if !restored.verified.is_clean() {
                    return Ok(ExitCode::FAILURE);
                }
            }
            Command::Admin { command: AdminCommand::Sweep { young, data } } => {
                let backend = open_existing(data).await?;
                let outcome = admin::sweep(&backend, young, Now::read()).await;
                backend.store.close().await;
                say(&outcome?);
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The settings in force as a table. It parses the arguments again, because only the parser can say where a value came
/// from.
fn explained() -> anyhow::Result<String> {
    let command = Cli::command();
    let matches = command.clone().get_matches();
    let (name, matches) = matches.subcommand().context("no command")?;
    let command = command.find_subcommand(name).context("no command")?;
    let settings = explain(command, matches)?;
    let wide = |text: fn(&Explained) -> &str| {
        settings.iter().map(|one| text(one).chars().count()).max().unwrap_or_default()
    };
    let (names, values) = (wide(|one| one.name), wide(|one| &one.value));
    let line =
        |Explained { name, value, why }: &Explained| format!("{name:names$}  {value:values$}  {why}\n");
    Ok(settings.iter().map(line).collect())
}

async fn open(data: DataArgs) -> anyhow::Result<Backend> {
    Backend::open(&Settings::resolve(data, ServingArgs::default())?).await
}

async fn open_existing(data: DataArgs) -> anyhow::Result<Backend> {
    Backend::open_existing(&Settings::resolve(data, ServingArgs::default())?).await
}

async fn work(settings: &Settings, metrics_listen: Option<SocketAddr>) -> anyhow::Result<()> {
    let figures = match metrics_listen {
        Some(address) => Some(metrics::listening(address).await?),
        None => None,
    };
    let backend = Backend::open(settings).await?;
    let store = backend.store.clone();
    let (tell, stopping) = watch::channel(false);
    let figures = figures.map(|listener| metrics::tell(listener, &backend, stopping.clone()));
    let working = tokio::spawn(worker::run(backend.clone(), stopping.clone()));
    let looking = tokio::spawn(trainings::run(backend.clone(), settings.training, stopping.clone()));
    let refreshing = tokio::spawn(refresh::run(backend, stopping));
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
