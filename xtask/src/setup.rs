//! As root on Debian, installs what a fresh machine lacks. Elsewhere, names each missing thing and
//! how to get it.

use std::path::{Path, PathBuf};

use anyhow::bail;

use crate::shell::{self, cargo, command, environment, exists, output};

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
pub(crate) fn run() -> anyhow::Result<()> {
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
    shell::run(command("rustup").args(["target", "add", "wasm32-unknown-unknown"]))
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
    shell::run(cargo().args(["install", "cargo-nextest"]))
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
    shell::run(command("apt-get").args(["update", "-qq"]))?;
    shell::run(
        command("apt-get")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(["install", "-y", "-qq", "--no-install-recommends"])
            .args(&names),
    )?;
    match missing.iter().find(|tool| !(tool.present)()) {
        Some(tool) => bail!("{} is still missing after installing {}", tool.name, tool.package),
        None => Ok(()),
    }
}

/// Whether this process is root, which may install packages and must not run PostgreSQL itself.
pub(crate) fn is_root() -> anyhow::Result<bool> {
    Ok(output(command("id").arg("-u"))?.trim() == "0")
}
