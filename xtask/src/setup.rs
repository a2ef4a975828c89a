//! As root on Debian, installs what a fresh machine lacks. Elsewhere, names each missing thing and
//! how to get it. Starts PostgreSQL for the length of a test run.

use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use tempfile::TempDir;

use crate::shell::{cargo, command, environment, exists, output, run};

/// A program that the tests need, and Debian's name for its package.
struct Tool {
    name: &'static str,
    package: &'static str,
    purpose: &'static str,
    present: fn() -> bool,
}

const TOOLS: &[Tool] = &[
    Tool { name: "cc", package: "gcc", purpose: "compiles SQLite and zstd", present: || exists("cc") },
    Tool {
        name: "chromium",
        package: "chromium",
        purpose: "runs the browser tests",
        present: || exists("chromium"),
    },
    Tool {
        name: "chromedriver",
        package: "chromium-driver",
        purpose: "drives the browser tests",
        present: || exists("chromedriver"),
    },
    Tool {
        name: "PostgreSQL",
        package: "postgresql",
        purpose: "is one of the two databases under test",
        present: || postgres_bin().is_some(),
    },
    Tool {
        name: "strace",
        package: "strace",
        purpose: "shows that an upload is on the disk before it is acknowledged",
        present: || exists("strace"),
    },
    Tool {
        name: "python3 with venv",
        package: "python3-venv",
        purpose: "compiles the kernels of the tests' packs",
        present: python_makes_environments,
    },
];

/// Debian's python3 has these modules only with another package.
fn python_makes_environments() -> bool {
    output(command("python3").args(["-c", "import venv, ensurepip"])).is_ok()
}

/// Installs everything that the other commands need.
pub(crate) fn install() -> anyhow::Result<()> {
    wasm_target()?;
    nextest()?;
    packages()?;
    axe()
}

/// Fetches axe-core, which finds barriers for people with disabilities on a page. Its licence is
/// MPL-2.0, so it is not kept in this repository. A Python package contains it, and Python is needed
/// anyway.
fn axe() -> anyhow::Result<()> {
    let package = ["--no-deps", "axe-playwright-python==0.1.8"];
    environment("axe-core", &package, "axe_playwright_python").map(drop)
}

/// Installs the standard library for wasm32. rustup does this by itself if it follows
/// rust-toolchain.toml.
pub(crate) fn wasm_target() -> anyhow::Result<()> {
    let sysroot = output(command("rustc").args(["--print", "sysroot"]))?;
    let library = Path::new(sysroot.trim()).join("lib/rustlib/wasm32-unknown-unknown");
    if library.is_dir() {
        return Ok(());
    }
    if !exists("rustup") {
        bail!(
            "the standard library for wasm32-unknown-unknown is missing and there is no rustup to fetch it; install your distribution's package for it (Debian: rustc's wasm target) or rustup"
        );
    }
    run(command("rustup").args(["target", "add", "wasm32-unknown-unknown"]))
}

/// The folder with the programs of the newest PostgreSQL server.
pub(crate) fn postgres_bin() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> =
        versions.map(|v| v.path().join("bin")).filter(|bin| bin.join("initdb").is_file()).collect();
    folders.sort();
    folders.pop().or_else(|| {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).find(|folder| folder.join("initdb").is_file())
    })
}

fn nextest() -> anyhow::Result<()> {
    if exists("cargo-nextest") || cargo_home_has("cargo-nextest") {
        return Ok(());
    }
    eprintln!("setup: installing cargo-nextest (the test runner); this takes some minutes once");
    // Installed without --locked; `tools::tool` gives the reason.
    run(cargo().args(["install", "cargo-nextest"]))
}

fn cargo_home_has(program: &str) -> bool {
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")));
    home.is_some_and(|home| home.join("bin").join(program).is_file())
}

fn packages() -> anyhow::Result<()> {
    let missing: Vec<&Tool> = TOOLS.iter().filter(|tool| !(tool.present)()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !(exists("apt-get") && is_root()?) {
        for tool in &missing {
            eprintln!(
                "missing: {} {}. Debian: apt-get install {}; elsewhere: your system's package of that name",
                tool.name, tool.purpose, tool.package
            );
        }
        bail!("{} programs are missing (listed above); install them and run this again", missing.len());
    }
    let names: Vec<&str> = missing.iter().map(|tool| tool.package).collect();
    eprintln!("setup: installing {}", names.join(", "));
    run(command("apt-get").args(["update", "-qq"]))?;
    run(command("apt-get")
        .env("DEBIAN_FRONTEND", "noninteractive")
        .args(["install", "-y", "-qq", "--no-install-recommends"])
        .args(&names))?;
    match missing.iter().find(|tool| !(tool.present)()) {
        Some(tool) => bail!("{} is still missing after installing {}", tool.name, tool.package),
        None => Ok(()),
    }
}

/// Whether this process is root, which may install packages and must not run PostgreSQL itself.
pub(crate) fn is_root() -> anyhow::Result<bool> {
    Ok(output(command("id").arg("-u"))?.trim() == "0")
}

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
