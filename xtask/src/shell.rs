//! Runs other programs.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, bail};

/// The root folder of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The folder where cargo puts what it builds.
pub(crate) fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// A program that starts in the workspace's root folder.
pub(crate) fn command(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    command.current_dir(root());
    command
}

/// The cargo that runs this xtask.
pub(crate) fn cargo() -> Command {
    command(std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from))
}

/// Runs a command with its output shown, and returns how it ended.
pub(crate) fn status(command: &mut Command) -> anyhow::Result<ExitStatus> {
    command.status().with_context(|| format!("cannot start {}", shown(command)))
}

/// Runs a command and shows its output. An error names the command.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = status(command)?;
    if !status.success() {
        bail!("{} failed: {status}", shown(command));
    }
    Ok(())
}

/// Runs a command and returns what it prints on stdout.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {}", shown(command)))?;
    if !output.status.success() {
        bail!("{} failed: {}", shown(command), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether a program is in the search path.
pub(crate) fn exists(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}

/// A command as errors name it. A command with hundreds of files is cut, so that the reason after it stays
/// visible.
fn shown(command: &Command) -> String {
    const LONGEST: usize = 400;
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    let line = words.join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((cut, _)) => format!("`{} …`", &line[..cut]),
        None => format!("`{line}`"),
    }
}

/// How many times pip is tried.
const ATTEMPTS: usize = 3;

/// The interpreter of an environment in which `module` can be imported. Installs `packages` if it
/// cannot.
pub(crate) fn environment(name: &str, packages: &[&str], module: &str) -> anyhow::Result<PathBuf> {
    let folder = target_folder().join(name);
    let interpreter = folder.join("bin/python");
    let ready = |interpreter: &Path| {
        let import = format!("import {module}");
        interpreter.is_file() && output(command(interpreter).args(["-c", &import])).is_ok()
    };
    if ready(&interpreter) {
        return Ok(interpreter);
    }
    if !exists("python3") {
        bail!("python3 is missing (Debian: apt-get install python3-venv)");
    }
    let wanted = packages.join(", ");
    eprintln!("making a Python environment with {wanted} in {}", folder.display());
    run(command("python3").args(["-m", "venv"]).arg(&folder))
        .context("python3 cannot make an environment (Debian: apt-get install python3-venv)")?;
    install(&interpreter, packages)
        .with_context(|| format!("pip cannot install {wanted}; is there a network, and room on the disk?"))?;
    Ok(interpreter)
}

/// Installs packages. Tries again, because a download of gigabytes may break off.
fn install(interpreter: &Path, packages: &[&str]) -> anyhow::Result<()> {
    let install = ["-m", "pip", "install", "--quiet", "--retries", "10", "--timeout", "60"];
    let attempt = || run(command(interpreter).args(install).args(packages));
    let mut outcome = attempt();
    for _ in 1..ATTEMPTS {
        let Err(error) = &outcome else { break };
        eprintln!("pip failed, and is tried again: {error:#}");
        outcome = attempt();
    }
    outcome
}

/// The program of a crate. It is compiled if it is not there yet.
pub(crate) fn tool(name: &str, version: &str) -> anyhow::Result<PathBuf> {
    let tools = target_folder().join("tools");
    let folder = tools.join(format!("{name}-{version}"));
    let program = folder.join("bin").join(name);
    if !program.is_file() {
        eprintln!("installing {name} {version} in {}", folder.display());
        // Without optimisation and debug information, tools are built fastest and still run fast
        // enough. --locked is left out, because a mirror may lack a locked version.
        let mut install = cargo();
        install
            .args(["install", "--debug", "--version", version, name])
            .env("CARGO_PROFILE_DEV_DEBUG", "false");
        install.arg("--root").arg(&folder).arg("--target-dir").arg(tools.join("build"));
        run(&mut install).with_context(|| format!("cargo cannot install {name}; is there a network?"))?;
    }
    Ok(program)
}
