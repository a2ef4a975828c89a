//! Python environments under the target folder, made when they are first needed.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::shell::{self, command, exists, output, target_folder};

/// The interpreter of an environment in which `module` can be imported, which
/// installing `packages` brings.
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
    shell::run(command(&interpreter).args(["-m", "pip", "install", "--quiet"]).args(packages))
        .with_context(|| format!("pip cannot install {wanted}; is there a network?"))?;
    Ok(interpreter)
}
