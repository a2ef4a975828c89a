//! A PostgreSQL server for the length of a test run.

use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;
use tempfile::TempDir;

use crate::setup::{is_root, postgres_bin};
use crate::shell::{command, output, run};

/// A running server on loopback with an empty cluster. It stops when it is dropped.
pub(crate) struct Postgres {
    folder: TempDir,
    bin: PathBuf,
    as_root: bool,
    port: u16,
}

/// Whether stored data must survive a power cut.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Durability {
    /// As on real clusters, for benchmarks whose speed is reported.
    Real,
    /// For data that is thrown away, if no speed is reported.
    None,
}

impl Postgres {
    pub(crate) fn start(durability: Durability) -> anyhow::Result<Self> {
        let bin = postgres_bin().context("no PostgreSQL server found; run `cargo xtask setup`")?;
        let folder = tempfile::tempdir()?;
        let as_root = is_root()?;
        if as_root {
            // PostgreSQL refuses to run as root. So the user `postgres` runs it and gets the
            // folder.
            let id = |flag| -> anyhow::Result<u32> {
                Ok(output(command("id").args([flag, "postgres"]))?.trim().parse()?)
            };
            chown(folder.path(), Some(id("-u")?), Some(id("-g")?))?;
        }
        let server = Self { folder, bin, as_root, port: free_port()? };
        let data = server.data();
        run(server
            .program("initdb")
            .args(["--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-sync", "-D"])
            .arg(&data)
            .stdout(Stdio::null()))?;
        let options = format!(
            "-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories={} -c fsync={}",
            server.port,
            server.folder.path().display(),
            if durability == Durability::Real { "on" } else { "off" }
        );
        run(server
            .program("pg_ctl")
            .args(["--wait", "--silent", "-D"])
            .arg(&data)
            .arg("-l")
            .arg(server.folder.path().join("log"))
            .args(["-o", &options, "start"]))?;
        Ok(server)
    }

    /// The server's address. Tests append the name of a database.
    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}", self.port)
    }

    /// Creates a database and returns its whole address.
    pub(crate) fn database(&self, name: &str) -> anyhow::Result<String> {
        let url = self.url();
        run(self.program("createdb").arg(format!("--maintenance-db={url}/postgres")).arg(name))?;
        Ok(format!("{url}/{name}"))
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn program(&self, name: &str) -> Command {
        let path = self.bin.join(name);
        let mut command = if self.as_root {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(path);
            command
        } else {
            Command::new(path)
        };
        // runuser keeps the current folder, and `postgres` may not enter it.
        command.current_dir(Path::new("/"));
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let stop = self
            .program("pg_ctl")
            .args(["--silent", "-m", "immediate", "-D"])
            .arg(self.data())
            .arg("stop")
            .status();
        if !stop.is_ok_and(|status| status.success()) {
            eprintln!("warning: the test PostgreSQL on port {} did not stop", self.port);
        }
    }
}

fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
