//! The `diode` program as it is handed out: it runs on every Linux of the last years.

use std::path::Path;

use anyhow::{Context, bail};

use crate::python::environment;
use crate::shell::{self, cargo, command, output, root, target_folder};

/// The oldest C library that the program is to run on: Debian 10, RHEL 8.
const GLIBC: &str = "2.28";
pub(crate) const TARGET: &str = "x86_64-unknown-linux-gnu";
/// Brings the linker and the stubs of old C libraries.
pub(crate) const ZIG: &str = "ziglang==0.14.1";
const ZIGBUILD: &str = "0.20.1";

pub(crate) fn run() -> anyhow::Result<()> {
    let python = environment("dist-python", &[ZIG], "ziglang")?;
    let tools = target_folder().join("dist-tools");
    if !tools.join("bin/cargo-zigbuild").is_file() {
        shell::run(
            cargo()
                .args(["install", "--locked", "--version", ZIGBUILD, "cargo-zigbuild", "--root"])
                .arg(&tools),
        )
        .context("cargo cannot install cargo-zigbuild; is there a network?")?;
    }
    let zig = zig(&python)?;
    shell::run(
        command(tools.join("bin/cargo-zigbuild"))
            .arg("zigbuild")
            .args(["--release", "--package", "diode-collector", "--target", &format!("{TARGET}.{GLIBC}")])
            .env("CARGO_ZIGBUILD_ZIG_PATH", zig)
            .current_dir(root()),
    )?;
    let program = target_folder().join(TARGET).join("release/diode");
    let bytes = std::fs::read(&program).with_context(|| format!("cannot read {}", program.display()))?;
    let newest = newest_glibc(&bytes).with_context(|| format!("{}: no glibc", program.display()))?;
    if newest > version(GLIBC) {
        bail!("{}: it needs glibc {}.{}, expected {GLIBC} or older", program.display(), newest.0, newest.1);
    }
    let megabytes = bytes.len() as f64 / 1e6;
    println!("{}: {megabytes:.1} MB, runs on glibc {}.{} and newer", program.display(), newest.0, newest.1);
    Ok(())
}

/// The compiler that the package has among its files.
pub(crate) fn zig(python: &Path) -> anyhow::Result<std::path::PathBuf> {
    let code = "import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), 'zig'))";
    Ok(output(command(python).args(["-c", code]))?.trim().into())
}

/// The newest version of the C library's symbols that a program names.
fn newest_glibc(program: &[u8]) -> Option<(u32, u32)> {
    // Versions stand in the table of strings, each with a zero at its end.
    let names = program.split(|&byte| byte == 0).filter_map(|name| std::str::from_utf8(name).ok());
    names.filter_map(|name| name.strip_prefix("GLIBC_")).map(version).max()
}

fn version(text: &str) -> (u32, u32) {
    let mut parts = text.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_counts() {
        let program = b"\0GLIBC_2.9\0GLIBC_2.28\0GLIBC_PRIVATE\0GLIBC_2.4\0";
        assert_eq!(newest_glibc(program), Some((2, 28)));
        assert_eq!(newest_glibc(b"static"), None);
        assert!(version("2.34") > version("2.4"));
    }
}
