//! The settings. Each is declared once, as an argument of the command line: its id is its key in `diode.toml`, its
//! comment is the help and the line of the reference, and its default holds everywhere.
//!
//! A flag overrides its variable, the variable overrides `diode.toml`, and the file overrides the default. [`file`]
//! makes the lines of `diode.toml` the defaults of the flags.

mod access;
mod blobs;
mod file;
mod openid;

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use diode_workloads::published::Published;

pub use access::{Access, LimitSettings};
pub use blobs::S3;
pub(crate) use file::without_password;
pub use file::{Explained, SettingsFile, explain, reference};
pub use openid::{ClientSecret, OpenId, OpenIdSettings};

use crate::blobs::Keys;
use crate::store::{Due, SnapshotLimits};

/// A year.
const MAX_PAUSE_MINUTES: u64 = 366 * 24 * 60;

/// What `serve` goes by.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct Settings {
    #[command(flatten)]
    pub serving: Serving,
    #[command(flatten)]
    pub data: Data,
}

/// How the server is reached; the commands that serve or make links take these.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct Serving {
    /// The address to listen on; port 0 takes a free one
    #[arg(
        long,
        env = "DIODE_LISTEN",
        value_name = "ADDRESS",
        value_parser = address,
        default_value = "127.0.0.1:8080"
    )]
    pub listen: SocketAddr,

    /// A further name under which browsers reach the server; may be given several times
    #[arg(long = "host", env = "DIODE_HOSTS", value_name = "NAME", value_delimiter = ',')]
    pub hosts: Vec<String>,

    /// An address for figures in the format of Prometheus, at /metrics [default: none]
    #[arg(
        long,
        env = "DIODE_METRICS_LISTEN",
        value_name = "ADDRESS",
        value_parser = address
    )]
    pub metrics_listen: Option<SocketAddr>,

    /// A folder of files that `diode import --output` wrote: releases of vLLM and SGLang to compare [default: none]
    #[arg(long, env = "DIODE_PUBLISHED", value_name = "FOLDER")]
    pub published: Option<PathBuf>,

    #[command(flatten)]
    pub access: Access,

    #[command(flatten)]
    pub openid: OpenIdSettings,

    #[command(flatten)]
    pub training: Training,
}

/// Where the data lies, and what of it is kept; every command that opens the data takes these.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct Data {
    /// The database: sqlite:FILE or postgres://USER@HOST/DATABASE
    #[arg(
        long,
        env = "DATABASE_URL",
        value_name = "URL",
        hide_env_values = true,
        default_value = "sqlite:diode.db"
    )]
    pub database_url: String,

    /// Where uploaded files and models are kept: a folder, or s3://BUCKET/PREFIX
    #[arg(long, env = "DIODE_BLOBS", value_name = "PLACE", default_value = "./diode-data")]
    pub blobs: PathBuf,

    #[command(flatten)]
    pub s3: S3,

    /// The keys of the bucket, by variables alone.
    #[arg(skip = Keys::from_environment())]
    pub keys: Keys,

    /// Megabytes of uploads and contributed models to keep at most; more are refused
    // Enough for 200,000 files as large as the largest collection in use.
    #[arg(long, env = "DIODE_MAX_STORED_MB", value_name = "NUMBER", default_value_t = 100_000)]
    pub max_stored_mb: u64,

    /// Take made-up times of simulated agents, to try the server out
    #[arg(long, env = "DIODE_ACCEPT_SIMULATED")]
    pub accept_simulated: bool,

    #[command(flatten)]
    pub snapshots: Snapshots,

    /// A file of settings [default: diode.toml, if it exists]
    #[arg(long, env = "DIODE_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// When the server asks for trainings by itself. All conditions must hold, counted from the last request for one.
#[derive(Debug, Clone, Copy, PartialEq, Args)]
#[group(skip)]
pub struct Training {
    /// Train by itself when enough has been measured
    #[arg(
        id = "training.automatic",
        long = "auto-train",
        env = "DIODE_AUTO_TRAIN",
        value_name = "on|off",
        value_parser = on_or_off,
        action = clap::ArgAction::Set,
        default_value = "on"
    )]
    pub automatic: bool,

    /// Problems that must be new for it
    // Enough for a useful model of a new GPU.
    #[arg(
        id = "training.new_problems",
        long = "auto-train-problems",
        env = "DIODE_AUTO_TRAIN_PROBLEMS",
        value_name = "NUMBER",
        default_value_t = 50
    )]
    pub new_problems: u64,

    /// How many must be new for each that was there before
    // Less than a tenth of new data changes a model little.
    #[arg(
        id = "training.new_share",
        long = "auto-train-share",
        env = "DIODE_AUTO_TRAIN_SHARE",
        value_name = "SHARE",
        value_parser = share,
        default_value = "0.1"
    )]
    pub new_share: f64,

    /// Minutes since a training was last asked for
    #[arg(
        id = "training.pause_minutes",
        long = "auto-train-pause",
        env = "DIODE_AUTO_TRAIN_PAUSE",
        value_name = "MINUTES",
        value_parser = pause,
        default_value = "60"
    )]
    pub pause_minutes: u64,
}

impl Training {
    pub fn due(&self) -> Due {
        let pause = (self.pause_minutes * 60_000).cast_signed();
        Due { problems: self.new_problems, share: self.new_share, pause }
    }
}

/// When the data of a hardware is frozen, and how much of it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Args)]
#[group(skip)]
pub struct Snapshots {
    /// Freeze the data of a hardware when a model of it is published after a training
    #[arg(
        id = "snapshots.automatic",
        long = "auto-snapshot",
        env = "DIODE_AUTO_SNAPSHOT",
        value_name = "on|off",
        value_parser = on_or_off,
        action = clap::ArgAction::Set,
        default_value = "on"
    )]
    pub automatic: bool,

    /// Snapshots of one hardware to keep at most; more are refused
    // Each automatic training needs a tenth more data than the last. So a hundred trainings, each with its snapshot,
    // lead from 50 problems to 600,000.
    #[arg(
        id = "snapshots.max_number",
        long = "max-snapshots",
        env = "DIODE_MAX_SNAPSHOTS",
        value_name = "NUMBER",
        default_value_t = 100
    )]
    pub max_number: u64,

    /// Megabytes of all snapshots to keep at most; more are refused
    // Enough for 150 snapshots as large as the largest collection in use, in all formats.
    #[arg(
        id = "snapshots.max_mb",
        long = "max-snapshots-mb",
        env = "DIODE_MAX_SNAPSHOTS_MB",
        value_name = "NUMBER",
        default_value_t = 50_000
    )]
    pub max_mb: u64,
}

impl Snapshots {
    pub fn limits(&self) -> SnapshotLimits {
        SnapshotLimits { number: self.max_number, bytes: self.max_mb.saturating_mul(1_000_000) }
    }
}

/// A setting that cannot be used. Nothing has been done yet.
#[derive(Debug, thiserror::Error)]
#[error("{0:#}")]
pub struct WrongSetting(anyhow::Error);

impl Serving {
    /// The releases whose files are compared.
    pub fn releases(&self) -> Result<Vec<Published>, WrongSetting> {
        let Some(folder) = &self.published else { return Ok(Vec::new()) };
        read_releases(folder).map_err(WrongSetting)
    }
}

fn read_releases(folder: &Path) -> anyhow::Result<Vec<Published>> {
    /// Both projects' files need a fiftieth of it.
    const MOST: u64 = 64 << 20;
    let refused = || format!("published: {}", folder.display());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(refused)? {
        let path = entry.with_context(refused)?.path();
        if path.extension().is_some_and(|ending| ending == "json") {
            paths.push(path);
        }
    }
    anyhow::ensure!(
        !paths.is_empty(),
        "published: {}: got a folder without files that end in .json, expected those of `diode import --output`",
        folder.display()
    );
    paths.sort();
    let read = |path: PathBuf| {
        let text = diode_formats::read_text(&path, MOST, "a file of `diode import`")?;
        Published::parse(&text).with_context(|| format!("published: {}", path.display()))
    };
    paths.into_iter().map(read).collect()
}

impl Settings {
    /// Checks what no single setting shows. Returns the provider by which people may sign in, if there is one.
    pub fn check(&self) -> Result<Option<OpenId>, WrongSetting> {
        self.serving.access.check(self.serving.listen).map_err(WrongSetting)?;
        self.data.place()?;
        self.serving.openid.provider().map_err(WrongSetting)
    }
}

/// The value of a setting that is on or off; in `diode.toml` it is true or false.
fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" | "true" => Ok(true),
        "off" | "false" => Ok(false),
        other => Err(format!("got `{other}`, expected on or off")),
    }
}

/// Whether a name such as `localhost:8080`, `127.0.0.1` or `[::1]:8080` is this machine's.
fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next(),
        None => host.split(':').next(),
    };
    name.is_some_and(|name| {
        name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    })
}

/// An address to listen on.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("got `{text}`, expected an address such as 127.0.0.1:8080"))
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share: &f64| share.is_finite() && *share >= 0.0);
    share.ok_or_else(|| format!("got `{text}`, expected a number from 0 on, such as 0.1"))
}

fn pause(text: &str) -> Result<u64, String> {
    let minutes = text.parse().ok().filter(|minutes| *minutes <= MAX_PAUSE_MINUTES);
    minutes.ok_or_else(|| format!("got `{text}`, expected at most {MAX_PAUSE_MINUTES} minutes"))
}

#[cfg(test)]
mod tests {
    use diode_workloads::file_names::Consumer;

    use super::*;

    #[test]
    fn nonsense_is_refused_with_what_was_expected() {
        assert!(address("8080").unwrap_err().contains("expected an address such as"));
        assert_eq!((on_or_off("on"), on_or_off("off")), (Ok(true), Ok(false)));
        assert!(on_or_off("yes").unwrap_err().contains("expected on or off"));
        for bad in ["NaN", "-0.1", "inf", "a tenth"] {
            assert!(share(bad).unwrap_err().contains("from 0 on"), "{bad}");
        }
        assert_eq!(pause("2"), Ok(2));
        assert!(pause(&u64::MAX.to_string()).is_err());
    }

    #[test]
    fn releases_are_read_from_a_folder_and_what_is_none_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let said = || format!("{:#}", read_releases(folder.path()).unwrap_err());
        assert!(said().contains("got a folder without files that end in .json"), "{}", said());
        let write = |name: &str, text: &str| {
            diode_formats::write_atomically(&folder.path().join(name), text.as_bytes()).unwrap();
        };
        let release = Published::new(Consumer::Vllm, "0.33.0", Vec::new());
        write("vllm-0.33.0.json", &release.to_text().unwrap());
        write("notes.txt", "not read");
        assert_eq!(read_releases(folder.path()).unwrap(), [release]);
        write("other.json", "{}");
        assert!(
            said().contains("published: ")
                && said().contains("other.json")
                && said().contains("diode import")
        );
        let nowhere = read_releases(&folder.path().join("nowhere")).unwrap_err();
        assert!(format!("{nowhere:#}").contains("nowhere: No such file"), "{nowhere:#}");
    }
}
