//! A server with its data.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use diode_tests::{Server, server_command};
use tempfile::TempDir;

use crate::machine;

/// How long boards may take to show everything that was uploaded.
const PATIENCE: Duration = Duration::from_secs(600);

/// A server and its database. The server can be started again.
pub(crate) struct Site {
    folder: TempDir,
    database: Option<String>,
    metrics: String,
    server: Option<Server>,
    /// Beside those that all servers here have.
    flags: Vec<String>,
    /// How long the last start took.
    pub(crate) start: Duration,
}

impl Site {
    /// Starts a server on the database at the URL, else on SQLite.
    pub(crate) fn new(database: Option<&str>) -> anyhow::Result<Self> {
        let mut site = Self::prepared(database)?;
        site.restart()?;
        Ok(site)
    }

    /// Like [`Self::new`], with the shipped measurements and models in the database, and with more flags for the server.
    pub(crate) fn shipped(database: Option<&str>, flags: &[&str]) -> anyhow::Result<Self> {
        let trained = Path::new(env!("CARGO_MANIFEST_DIR")).join("../trained_models").canonicalize()?;
        let mut site = Self::prepared(database)?;
        site.flags = flags.iter().map(|&flag| flag.to_owned()).collect();
        let status = server_command(site.folder.path(), &["admin", "seed"])?.arg(trained).status()?;
        ensure!(status.success(), "`diode-server admin seed` failed: {status}");
        site.restart()?;
        site.settle()?;
        Ok(site)
    }

    fn prepared(database: Option<&str>) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let url = database.unwrap_or("sqlite:load.db");
        let settings = format!("database_url = {url:?}\nblobs = \"blobs\"\n");
        std::fs::write(folder.path().join("diode.toml"), settings)?;
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        Ok(Self {
            folder,
            database: database.map(str::to_owned),
            metrics: format!("127.0.0.1:{port}"),
            server: None,
            flags: Vec::new(),
            start: Duration::ZERO,
        })
    }

    /// Stops the server, if it runs, and starts it again.
    pub(crate) fn restart(&mut self) -> anyhow::Result<()> {
        self.server.take().map_or(Ok(()), Server::stop)?;
        let mut flags = vec!["--no-worker", "--auto-train", "off", "--metrics-listen", &self.metrics];
        flags.extend(self.flags.iter().map(String::as_str));
        let began = Instant::now();
        self.server = Some(Server::start_with(self.folder.path(), &flags)?);
        self.start = began.elapsed();
        Ok(())
    }

    pub(crate) fn server(&self) -> anyhow::Result<&Server> {
        self.server.as_ref().context("no server runs")
    }

    pub(crate) fn url(&self) -> anyhow::Result<&str> {
        Ok(self.server()?.url())
    }

    pub(crate) fn database(&self) -> &'static str {
        if self.database.is_some() { "Postgres" } else { "SQLite" }
    }

    pub(crate) fn peak_memory(&self) -> anyhow::Result<f64> {
        machine::memory(self.server()?.id(), "VmHWM")
    }

    pub(crate) fn memory(&self) -> anyhow::Result<f64> {
        machine::memory(self.server()?.id(), "VmRSS")
    }

    /// Sends a file. Returns the time until the receipt came.
    pub(crate) fn upload(&self, bytes: &[u8]) -> anyhow::Result<Duration> {
        let start = Instant::now();
        let request = ureq::post(format!("{}/api/v1/uploads", self.url()?));
        let reply = request.content_type("application/octet-stream").send(bytes)?;
        if reply.status() != 201 {
            bail!("{}: expected a new upload", reply.status());
        }
        Ok(start.elapsed())
    }

    /// Waits until the boards show everything that was uploaded. Returns how long that took.
    pub(crate) fn settle(&self) -> anyhow::Result<Duration> {
        let start = Instant::now();
        let waiting = ["diode_stale_entries ", "diode_uploads_to_judge "];
        while start.elapsed() < PATIENCE {
            let text =
                ureq::get(format!("http://{}/metrics", self.metrics)).call()?.body_mut().read_to_string()?;
            let number = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
            if waiting.iter().all(|name| number(name) == Some("0")) {
                return Ok(start.elapsed());
            }
            thread::sleep(Duration::from_millis(100));
        }
        bail!("boards do not show what was uploaded {PATIENCE:?} ago")
    }

    /// The bytes of the database and of all blobs. SQLite's log is part of the database.
    pub(crate) fn size(&self) -> anyhow::Result<(u64, u64)> {
        let files = machine::size(&self.folder.path().join("blobs"))?;
        let Some(url) = &self.database else {
            return Ok((machine::size(self.folder.path())? - files, files));
        };
        let ask = "SELECT pg_database_size(current_database())";
        let told = Command::new("psql").args([url, "-Atc", ask]).output().context("cannot start psql")?;
        let told = String::from_utf8_lossy(&told.stdout).trim().parse();
        Ok((told.context("psql tells no size")?, files))
    }
}
