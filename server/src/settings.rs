//! Where the server listens and keeps its data. Flags override the environment, the environment overrides
//! `diode.toml`, and the file overrides the defaults.

mod access;
mod blobs;
mod explain;
mod limits;
mod openid;
mod snapshots;
mod training;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::Args;
use serde::Deserialize;
use serde::de::DeserializeOwned;

pub use access::{Access, AccessArgs};
pub use blobs::BucketArgs;
pub(crate) use explain::without_password;
pub use explain::{Explained, explain};
pub use limits::LimitArgs;
pub use openid::{ClientSecret, OpenId, OpenIdArgs};
pub use snapshots::{SnapshotArgs, Snapshots};
pub use training::{Training, TrainingArgs};

use crate::blobs::BlobPlace;

const DEFAULT_LISTEN: &str = "127.0.0.1:8080";
const DEFAULT_DATABASE: &str = "sqlite:diode.db";
const DEFAULT_BLOBS: &str = "./diode-data";
const DEFAULT_CONFIG: &str = "diode.toml";
/// The default limit: enough for 200,000 files as large as the largest collection in use.
const DEFAULT_MAX_STORED_MB: u64 = 100_000;

/// Where the data lies; every command takes these.
#[derive(Debug, Clone, Default, Args)]
pub struct DataArgs {
    /// The database: sqlite:FILE or postgres://USER@HOST/DATABASE [default: sqlite:diode.db]
    #[arg(long, env = "DATABASE_URL", value_name = "URL", hide_env_values = true)]
    pub database_url: Option<String>,

    /// Where uploaded files and models are kept: a folder, or s3://BUCKET/PREFIX [default: ./diode-data]
    #[arg(long, env = "DIODE_BLOBS", value_name = "PLACE")]
    pub blobs: Option<PathBuf>,

    #[command(flatten)]
    pub bucket: BucketArgs,

    /// Megabytes of uploads and contributed models to keep at most; more are refused [default: 100000]
    #[arg(long, env = "DIODE_MAX_STORED_MB", value_name = "NUMBER")]
    pub max_stored_mb: Option<u64>,

    #[command(flatten)]
    pub snapshots: SnapshotArgs,

    /// A file of settings [default: diode.toml, if it exists]
    #[arg(long, env = "DIODE_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// How the server is reached; the commands that serve or make links take these.
#[derive(Debug, Clone, Default, Args)]
pub struct ServingArgs {
    /// The address to listen on; port 0 takes a free one [default: 127.0.0.1:8080]
    #[arg(long, env = "DIODE_LISTEN", value_name = "ADDRESS")]
    pub listen: Option<String>,

    /// A further name under which browsers reach the server; may be given several times
    #[arg(long = "host", env = "DIODE_HOSTS", value_name = "NAME", value_delimiter = ',')]
    pub hosts: Vec<String>,

    /// Take made-up times of simulated agents, to try the server out
    #[arg(long, env = "DIODE_ACCEPT_SIMULATED")]
    pub accept_simulated: bool,

    /// An address for figures in the format of Prometheus, at /metrics [default: none]
    #[arg(long, env = "DIODE_METRICS_LISTEN", value_name = "ADDRESS")]
    pub metrics_listen: Option<String>,

    #[command(flatten)]
    pub access: AccessArgs,

    #[command(flatten)]
    pub openid: OpenIdArgs,

    #[command(flatten)]
    pub training: TrainingArgs,
}

/// The content of `diode.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    listen: Option<String>,
    database_url: Option<String>,
    blobs: Option<PathBuf>,
    max_stored_mb: Option<u64>,
    #[serde(default)]
    hosts: Vec<String>,
    accept_simulated: Option<bool>,
    metrics_listen: Option<String>,
    #[serde(default)]
    access: access::AccessFile,
    #[serde(default)]
    openid: openid::OpenIdFile,
    #[serde(default)]
    s3: blobs::BucketFile,
    #[serde(default)]
    limits: limits::LimitFile,
    #[serde(default)]
    training: training::TrainingFile,
    #[serde(default)]
    snapshots: snapshots::SnapshotFile,
}

/// The settings in force.
#[derive(Debug, Clone)]
pub struct Settings {
    pub listen: SocketAddr,
    pub database_url: String,
    pub blobs: BlobPlace,
    /// The most bytes of uploads and contributed models that the server keeps.
    pub max_stored: u64,
    /// The names under which browsers reach the server, in addition to the names of this machine.
    pub hosts: Vec<String>,
    /// Whether simulated times are accepted.
    pub accept_simulated: bool,
    /// The address that serves figures; `None` for none.
    pub metrics_listen: Option<SocketAddr>,
    pub access: Access,
    /// The provider by which people may sign in; `None` if they sign in by password alone.
    pub openid: Option<OpenId>,
    pub training: Training,
    pub snapshots: Snapshots,
}

/// A setting that cannot be used. Nothing has been done yet.
#[derive(Debug, thiserror::Error)]
#[error("{0:#}")]
pub struct WrongSetting(anyhow::Error);

impl Settings {
    /// Combines the flags, the file and the defaults. The parser of the flags has already read the environment.
    pub fn resolve(args: DataArgs, serving: ServingArgs) -> Result<Self, WrongSetting> {
        Self::put_together(args, serving).map_err(WrongSetting)
    }

    fn put_together(args: DataArgs, serving: ServingArgs) -> anyhow::Result<Self> {
        let file = read(args.config.as_deref())?;
        let listen = serving.listen.or(file.listen).unwrap_or_else(|| DEFAULT_LISTEN.to_owned());
        let listen = address("listen", &listen)?;
        let metrics = serving.metrics_listen.or(file.metrics_listen);
        Ok(Self {
            listen,
            access: Access::resolve(serving.access, file.access, &file.limits, listen)?,
            openid: OpenId::resolve(serving.openid, file.openid)?,
            training: Training::resolve(serving.training, file.training)?,
            snapshots: Snapshots::resolve(&args.snapshots, &file.snapshots),
            database_url: args
                .database_url
                .or(file.database_url)
                .unwrap_or_else(|| DEFAULT_DATABASE.to_owned()),
            blobs: blobs::resolve(
                args.blobs.or(file.blobs).unwrap_or_else(|| DEFAULT_BLOBS.into()),
                args.bucket,
                file.s3,
            )?,
            max_stored: args
                .max_stored_mb
                .or(file.max_stored_mb)
                .unwrap_or(DEFAULT_MAX_STORED_MB)
                .saturating_mul(1_000_000),
            metrics_listen: metrics.map(|given| address("metrics_listen", &given)).transpose()?,
            accept_simulated: serving.accept_simulated || file.accept_simulated.unwrap_or_default(),
            hosts: if serving.hosts.is_empty() { file.hosts } else { serving.hosts },
        })
    }
}

fn read(config: Option<&Path>) -> anyhow::Result<File> {
    let (path, text) = file_of(config)?;
    from_toml(path.as_deref(), &text)
}

/// Reads the text of a settings file. A line may contain a password, so errors give its number but not its text.
fn from_toml<T: DeserializeOwned>(path: Option<&Path>, text: &str) -> anyhow::Result<T> {
    toml::from_str(text).map_err(|error| {
        let path = path.unwrap_or(Path::new(DEFAULT_CONFIG)).display();
        let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
        anyhow!("settings {path}, line {line}: {}", error.message())
    })
}

/// The settings file and its text; no path and an empty text if there is no file.
fn file_of(config: Option<&Path>) -> anyhow::Result<(Option<PathBuf>, String)> {
    let path = match config {
        Some(path) => path,
        None if Path::new(DEFAULT_CONFIG).exists() => Path::new(DEFAULT_CONFIG),
        None => return Ok((None, String::new())),
    };
    let text = std::fs::read_to_string(path).with_context(|| format!("settings {}", path.display()))?;
    Ok((Some(path.to_owned()), text))
}

/// The value of a flag that is on or off.
fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        other => Err(format!("got `{other}`, expected on or off")),
    }
}

fn address(name: &str, listen: &str) -> anyhow::Result<SocketAddr> {
    listen
        .parse()
        .with_context(|| format!("{name}: got `{listen}`, expected an address such as {DEFAULT_LISTEN}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::{Anonymous, SignUps};

    #[test]
    fn flags_win_over_the_file_and_the_file_over_defaults() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("diode.toml");
        std::fs::copy("tests/settings/diode.toml", &config).unwrap();
        let args = DataArgs {
            database_url: Some("sqlite:flag.db".into()),
            config: Some(config),
            ..Default::default()
        };
        let settings = Settings::resolve(args, ServingArgs::default()).unwrap();
        assert_eq!(settings.database_url, "sqlite:flag.db");
        assert_eq!(settings.listen.port(), 9090);
        let policy = settings.access.policy(settings.listen);
        assert_eq!((policy.sign_ups, policy.anonymous), (SignUps::Closed, Anonymous::Uploads));
        assert_eq!(settings.blobs.to_string(), DEFAULT_BLOBS);
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let serving = ServingArgs { listen: Some("8080".to_owned()), ..ServingArgs::default() };
        let error = Settings::resolve(DataArgs::default(), serving).unwrap_err().to_string();
        assert!(error.contains("expected an address such as"), "{error}");
    }
}
