//! Tries a release out: every artefact runs on a Debian that has nothing else. QEMU runs the artefacts for
//! other machines.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};

use super::{Target, VERSION, programs};
use crate::setup::is_root;
use crate::shell::{self, command, exists, output, target_folder};
use crate::wheel;

/// The Debian release that is installed. Its C library is newer than the programs need.
const SUITE: &str = "bookworm";
/// Runs in a private view of the mounts and starts a program in the Debian. Nothing stays mounted.
const ENTER: &str = r#"mount -t proc proc "$0/proc" && exec chroot "$0" "$@""#;

/// Before anything is built, refuses targets that could not be tried out.
pub(super) fn can_try(targets: &[Target]) -> anyhow::Result<()> {
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

pub(super) fn try_out(dist: &Path, targets: &[Target]) -> anyhow::Result<()> {
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
