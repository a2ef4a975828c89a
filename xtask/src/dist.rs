//! The parts of a release: programs, wheels, a container's recipe, checksums, the bill of materials and
//! notes. Tries a release out: every artefact runs on a Debian that has nothing else. QEMU runs the artefacts for other
//! machines.

mod bill;
mod programs;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};

use crate::dist::programs::SERVER;
use crate::setup::is_root;
use crate::shell::{command, exists, output, root, target_folder};
use crate::{check, shell, web, wheel};

pub(crate) use crate::dist::programs::{DIODE, ZIG, program, time_of_commit, without_paths, zig};

/// The version of all parts. Cargo.toml states it once.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Args)]
pub(crate) struct Options {
    /// Build for this target only.
    #[arg(long, value_enum)]
    target: Option<Target>,
    /// Then run everything on a bare Debian made for that; needs root, and QEMU for other machines' programs.
    #[arg(long = "try")]
    try_out: bool,
    /// Build with this profile of cargo; anything but `release` is good for trying this command only.
    #[arg(long, default_value = "release")]
    profile: String,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let targets = options.target.map_or_else(|| vec![Target::X86_64, Target::Aarch64], |target| vec![target]);
    if options.try_out {
        can_try(&targets)?;
    }
    let folder = empty_folder()?;
    let notes = of_this_version()?;
    for target in &targets {
        target.add()?;
    }
    // The dashboard and the documents are built first, because the server contains them.
    web::build()?;
    check::build_book()?;
    let mut carried = Vec::new();
    for target in &targets {
        let programs =
            [program(DIODE, *target, &options.profile)?, program(SERVER, *target, &options.profile)?];
        programs::pack(*target, &programs, &folder)?;
        let [diode, _] = programs;
        carried.push((*target, diode));
    }
    wheel::build(&carried, &options.profile, &folder)?;
    bill::write(&targets, &folder.join(format!("diode-{VERSION}.cdx.json")))?;
    #[allow(
        clippy::disallowed_methods,
        reason = "the checksums, written last, tell a whole release from half a one"
    )]
    std::fs::write(folder.join("RELEASE_NOTES.md"), notes)?;
    programs::checksums(&folder)?;
    println!("{}: built", folder.display());
    if options.try_out { try_out(&folder, &targets) } else { Ok(()) }
}

fn empty_folder() -> anyhow::Result<PathBuf> {
    let folder = target_folder().join("dist");
    if folder.is_dir() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// A machine with Linux and glibc. (A static program could not load the driver of a GPU.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    #[value(name = "x86_64")]
    X86_64,
    #[value(name = "aarch64")]
    Aarch64,
}

impl Target {
    /// The machine's name in archives and from `uname -m`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    pub(crate) const fn triple(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64-unknown-linux-gnu",
            Self::Aarch64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// The machine's number in ELF headers.
    pub(crate) const fn elf_machine(self) -> u16 {
        match self {
            Self::X86_64 => 62,
            Self::Aarch64 => 183,
        }
    }

    /// The machine's name in Debian.
    pub(crate) const fn debian(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }

    /// Whether programs for this machine run here, natively or by QEMU. Linux has a list of what runs
    /// programs of other machines.
    pub(crate) fn runs_here(self) -> bool {
        let qemu = Path::new("/proc/sys/fs/binfmt_misc").join(format!("qemu-{}", self.name()));
        std::env::consts::ARCH == self.name() || qemu.exists()
    }

    /// Installs the standard library for this machine.
    pub(crate) fn add(self) -> anyhow::Result<()> {
        let sysroot = output(command("rustc").args(["--print", "sysroot"]))?;
        if Path::new(sysroot.trim()).join("lib/rustlib").join(self.triple()).is_dir() {
            return Ok(());
        }
        if !exists("rustup") {
            bail!(
                "the standard library for {0} is missing and there is no rustup to fetch it; install {0} of rust-std, or build with --target {1}",
                self.triple(),
                std::env::consts::ARCH
            );
        }
        shell::run(command("rustup").args(["target", "add", self.triple()]))
            .with_context(|| format!("no standard library for {}; is there a network?", self.triple()))
    }
}

fn of_this_version() -> anyhow::Result<String> {
    let changes = std::fs::read_to_string(root().join("CHANGELOG.md")).context("CHANGELOG.md")?;
    // A build between two releases uses the part of unreleased changes.
    part(&changes, VERSION)
        .or_else(|| part(&changes, "Unreleased"))
        .with_context(|| format!("CHANGELOG.md: got no part `## {VERSION}` or `## Unreleased`; write one"))
}

/// The text between `## VERSION` and the next version. A date may follow the number.
fn part(changes: &str, version: &str) -> Option<String> {
    let of_version = |line: &str| {
        let heading = line.strip_prefix("## ")?.split_whitespace().next()?;
        Some(heading.trim_matches(['[', ']']) == version)
    };
    let mut lines = changes.lines().skip_while(|line| of_version(line) != Some(true));
    lines.next()?;
    let text: Vec<&str> = lines.take_while(|line| !line.starts_with("## ")).collect();
    let text = text.join("\n");
    (!text.trim().is_empty()).then(|| format!("{}\n", text.trim()))
}

/// The Debian release that is installed. Its C library is newer than the programs need.
const SUITE: &str = "bookworm";
/// Runs in a private view of the mounts and starts a program in the Debian. Nothing stays mounted.
const ENTER: &str = r#"mount -t proc proc "$0/proc" && exec chroot "$0" "$@""#;

/// Before anything is built, refuses targets that could not be tried out.
fn can_try(targets: &[Target]) -> anyhow::Result<()> {
    if !is_root()? {
        bail!("only root can make and enter a Debian; run this again as root");
    }
    if !exists("debootstrap") {
        bail!("debootstrap is missing (Debian: apt-get install debootstrap)");
    }
    for target in targets {
        if !target.runs_here() {
            bail!(
                "programs for {0} do not run on this machine; Debian's qemu-user-static and binfmt-support make them run, or leave {0} out with --target",
                target.name()
            );
        }
    }
    Ok(())
}

fn try_out(dist: &Path, targets: &[Target]) -> anyhow::Result<()> {
    for target in targets {
        let bare = Debian::make("bare", *target, &[])?;
        programs(&bare, dist, *target)?;
        let python = Debian::make("python", *target, &["--include=python3-venv"])?;
        wheels(&python, dist, *target)?;
    }
    Ok(())
}

/// The folder with a Debian.
struct Debian(PathBuf);

impl Debian {
    fn make(name: &str, target: Target, options: &[&str]) -> anyhow::Result<Self> {
        let folder = target_folder().join(format!("debian-{name}-{}", target.name()));
        if folder.is_dir() {
            std::fs::remove_dir_all(&folder)?;
        }
        eprintln!("dist: making a {name} Debian {SUITE} in {}", folder.display());
        shell::run(
            command("debootstrap")
                .args(["--variant=minbase", "--arch", target.debian()])
                .args(options)
                .arg(SUITE)
                .arg(&folder)
                .stdout(Stdio::null()),
        )?;
        Ok(Self(folder))
    }

    /// A command that runs inside the Debian. Its paths are paths inside the Debian.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut inside = command("unshare");
        inside.args(["--mount", "sh", "-c", ENTER]).arg(&self.0).args(arguments);
        inside.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", "/root");
        inside
    }

    fn output(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let text = output(&mut self.command(arguments))?;
        println!("$ {}\n{}", arguments.join(" "), text.trim_end());
        Ok(text)
    }
}

fn programs(debian: &Debian, dist: &Path, target: Target) -> anyhow::Result<()> {
    let name = programs::name(target);
    let archive = dist.join(format!("{name}.tar.gz"));
    shell::run(
        command("tar")
            .arg("--extract")
            .arg("--file")
            .arg(archive)
            .arg("--directory")
            .arg(debian.0.join("opt")),
    )?;
    let inside = |file: &str| format!("/opt/{name}/{file}");
    let (diode, server) = (inside("diode"), inside("diode-server"));
    for program in [&diode, &server] {
        let said = debian.output(&[program, "--version"])?;
        if !said.contains(VERSION) {
            bail!("{program} --version: got {said:?}, expected {VERSION} in it");
        }
    }
    debian.output(&[&diode, "detect"])?;
    let model = std::fs::read_dir(debian.0.join("opt").join(&name).join("models"))?.next();
    let model = model.context("the archive holds no model")??.file_name();
    let model = inside(&format!("models/{}", model.to_string_lossy()));
    let problem = ["--op", "mm", "--m", "4096", "--n", "4096", "--k", "4096", "--dtype", "bfloat16"];
    let mut predict = vec![diode.as_str(), "predict", "--model", &model];
    predict.extend(problem);
    debian.output(&predict)?;
    serve(debian, &server)
}

/// Starts the server on a free port, and asks it for its health and for the dashboard.
fn serve(debian: &Debian, server: &str) -> anyhow::Result<()> {
    let data = ["--database-url", "sqlite:/srv/diode.db", "--blobs", "/srv/diode-data"];
    let mut arguments = vec![server, "serve", "--listen", "127.0.0.1:0"];
    arguments.extend(data);
    let child = debian.command(&arguments).stdout(Stdio::piped()).spawn().context("cannot start unshare")?;
    let mut child = Stopped(child);
    let lines = BufReader::new(child.0.stdout.take().context("stdout is piped")?).lines();
    let address = lines
        .map_while(Result::ok)
        .find_map(|line| line.split("listening on http://").nth(1).map(|address| address.trim().to_owned()));
    let address = address.context("diode-server ended before it listened")?;
    for (path, expected) in [("/healthz", "ok"), ("/", "<script")] {
        let got = get(&address, path)?;
        if !got.starts_with("HTTP/1.1 200") || !got.contains(expected) {
            bail!("GET {path}: got {got:.300}, expected 200 and `{expected}`");
        }
        println!("GET {path}: {}", got.lines().next().unwrap_or_default());
    }
    Ok(())
}

/// A program that is stopped when the try-out ends, also after an error.
struct Stopped(Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The whole answer to a request, with its headers.
fn get(address: &str, path: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Tries the two wheels with code, each together with the wheel of the models.
fn wheels(debian: &Debian, dist: &Path, target: Target) -> anyhow::Result<()> {
    let folder = debian.0.join("opt");
    let mut wheels = Vec::new();
    for entry in std::fs::read_dir(dist)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with("-any.whl") || name.ends_with(&format!("_{}.whl", target.name())) {
            std::fs::copy(dist.join(&name), folder.join(&name))?;
            wheels.push(name);
        }
    }
    let find = |start: &str| {
        let found = wheels.iter().find(|name| name.starts_with(start));
        found.map(|name| format!("/opt/{name}")).with_context(|| format!("no wheel of {start}"))
    };
    let models = find("torch_diode_models-")?;
    for name in ["torch_diode-", "torch_diode_lib-"] {
        let environment = format!("/srv/{name}environment");
        debian.output(&["python3", "-m", "venv", &environment])?;
        let python = format!("{environment}/bin/python");
        let pip = [python.as_str(), "-m", "pip", "install", "--quiet", "--no-index", &find(name)?, &models];
        debian.output(&pip)?;
        let code = "import torch_diode, torch_diode_models as m; print(*m.list_available_models())";
        if debian.output(&[&python, "-c", code])?.trim().is_empty() {
            bail!("{name} with torch_diode_models: got no models");
        }
        if name == "torch_diode-" {
            for arguments in wheel::runs_of_program(&environment) {
                let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
                wheel::expect_answer(&arguments, &debian.output(&words)?)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod notes_tests {
    use super::*;

    #[test]
    fn a_version_has_its_own_part() {
        let changes =
            "# Changes\n\n## 0.2.0 (2026-12-01)\n\nNew.\n\n### Fixed\n\n- A.\n\n## [0.1.0]\n\nFirst.\n";
        assert_eq!(part(changes, "0.2.0").unwrap(), "New.\n\n### Fixed\n\n- A.\n");
        assert_eq!(part(changes, "0.1.0").unwrap(), "First.\n");
        assert_eq!(part(changes, "0.3.0"), None);
        assert_eq!(part("## 0.1.0\n\n## 0.0.1\n", "0.1.0"), None);
    }
}
