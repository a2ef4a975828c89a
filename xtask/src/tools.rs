//! Tools of the Rust community, installed in the target folder.

use std::path::PathBuf;

use anyhow::Context;

use crate::shell::{self, cargo, target_folder};

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
        shell::run(&mut install)
            .with_context(|| format!("cargo cannot install {name}; is there a network?"))?;
    }
    Ok(program)
}
