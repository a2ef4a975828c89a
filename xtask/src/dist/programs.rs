//! Builds `diode` and `diode-server` so that they run on Linux distributions of recent years.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::Target;
use crate::python::environment;
use crate::shell::{self, command, output, root, target_folder};

/// The oldest C library on which the programs must run: that of Debian 10 and RHEL 8.
const GLIBC: &str = "2.28";
/// The package with the linker and the stubs of old C libraries.
pub(crate) const ZIG: &str = "ziglang==0.14.1";
const ZIGBUILD: &str = "cargo-zigbuild==0.20.1";

/// The programs, as pairs of package and file.
const PROGRAMS: [(&str, &str); 2] = [("diode-collector", "diode"), ("diode-server", "diode-server")];

/// Builds the programs and returns their files.
pub(super) fn build(target: Target, profile: &str) -> anyhow::Result<Vec<PathBuf>> {
    let python = environment("dist-python", &[ZIG, ZIGBUILD], "ziglang")?;
    let zigbuild = python.with_file_name("cargo-zigbuild");
    let zig = zig(&python)?;
    let folder = match profile {
        "dev" => "debug",
        other => other,
    };
    let mut programs = Vec::new();
    for (package, name) in PROGRAMS {
        eprintln!("dist: building {name} for {}", target.triple());
        // The programs are built one at a time. Built together, the server would get features of
        // libraries that only the command line needs.
        shell::run(
            command(&zigbuild)
                .args(["zigbuild", "--locked", "--profile", profile, "--package", package, "--target"])
                .arg(format!("{}.{GLIBC}", target.triple()))
                .env("CARGO_ZIGBUILD_ZIG_PATH", &zig)
                .env("CARGO_ENCODED_RUSTFLAGS", without_paths()?),
        )?;
        let program = target_folder().join(target.triple()).join(folder).join(name);
        inspect(&program, target)?;
        programs.push(program);
    }
    Ok(programs)
}

/// The compiler that the Python package contains.
pub(crate) fn zig(python: &Path) -> anyhow::Result<PathBuf> {
    let code = "import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), 'zig'))";
    Ok(output(command(python).args(["-c", code]))?.trim().into())
}

/// Compiler flags that keep this machine's paths out of a program, so that every machine builds the same
/// program.
pub(crate) fn without_paths() -> anyhow::Result<String> {
    let root = root().canonicalize()?;
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo")))
        .context("neither CARGO_HOME nor HOME is set")?;
    let mut flags = vec![format!("--remap-path-prefix={}=diode", root.display())];
    // Every registry has a folder of its own, named by its address.
    let registries = home.join("registry/src");
    for registry in std::fs::read_dir(&registries).with_context(|| format!("no {}", registries.display()))? {
        flags.push(format!("--remap-path-prefix={}=crates", registry?.path().display()));
    }
    Ok(flags.join("\x1f"))
}

/// Refuses a program that is for another machine or needs a newer C library.
fn inspect(program: &Path, target: Target) -> anyhow::Result<()> {
    let bytes = std::fs::read(program).with_context(|| format!("cannot read {}", program.display()))?;
    let machine = elf_machine(&bytes).with_context(|| format!("{}: not a program", program.display()))?;
    if machine != target.elf_machine() {
        bail!("{}: got ELF machine {machine}, expected {}", program.display(), target.elf_machine());
    }
    let newest = newest_glibc(&bytes).with_context(|| format!("{}: no glibc", program.display()))?;
    if newest > version(GLIBC) {
        bail!("{}: it needs glibc {}.{}, expected {GLIBC} or older", program.display(), newest.0, newest.1);
    }
    let megabytes = bytes.len() as f64 / 1e6;
    println!("{}: {megabytes:.1} MB, runs on glibc {}.{} and newer", program.display(), newest.0, newest.1);
    Ok(())
}

/// The machine in the ELF header of a little-endian program.
fn elf_machine(program: &[u8]) -> Option<u16> {
    let header = program.get(..20)?;
    header.starts_with(b"\x7fELF").then(|| u16::from_le_bytes([header[18], header[19]]))
}

/// The newest version of the C library that a program's symbols name.
fn newest_glibc(program: &[u8]) -> Option<(u32, u32)> {
    // The versions are in the table of strings. Each string ends with a zero.
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

    #[test]
    fn a_program_names_its_machine() {
        let mut header = *b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\xb7\0";
        assert_eq!(elf_machine(&header), Some(Target::Aarch64.elf_machine()));
        header[18] = 62;
        assert_eq!(elf_machine(&header), Some(Target::X86_64.elf_machine()));
        assert_eq!(elf_machine(b"#!/bin/sh"), None);
    }
}
