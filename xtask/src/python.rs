//! Python environments in the target folder. They are made when they are first needed.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::shell::{self, command, exists, output, target_folder};

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
    shell::run(command("python3").args(["-m", "venv"]).arg(&folder))
        .context("python3 cannot make an environment (Debian: apt-get install python3-venv)")?;
    install(&interpreter, packages)
        .with_context(|| format!("pip cannot install {wanted}; is there a network, and room on the disk?"))?;
    Ok(interpreter)
}

/// Installs packages. Tries again, because a download of gigabytes may break off.
fn install(interpreter: &Path, packages: &[&str]) -> anyhow::Result<()> {
    let install = ["-m", "pip", "install", "--quiet", "--retries", "10", "--timeout", "60"];
    let attempt = || shell::run(command(interpreter).args(install).args(packages));
    let mut outcome = attempt();
    for _ in 1..ATTEMPTS {
        let Err(error) = &outcome else { break };
        eprintln!("pip failed, and is tried again: {error:#}");
        outcome = attempt();
    }
    outcome
}
