//! Builds `diode` and `diode-server` so that they run on Linux distributions of recent years.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::dist::{Target, VERSION};
use crate::shell;
use crate::shell::{command, environment, output, root, target_folder};

/// The oldest C library on which the programs must run: that of Debian 10 and RHEL 8.
const GLIBC: &str = "2.28";
/// The package with the linker and the stubs of old C libraries.
pub(crate) const ZIG: &str = "ziglang==0.14.1";
const ZIGBUILD: &str = "cargo-zigbuild==0.20.1";

/// A program: its package and its file.
#[derive(Clone, Copy)]
pub(crate) struct Program(&'static str, &'static str);

pub(crate) const DIODE: Program = Program("diode-collector", "diode");
pub(super) const SERVER: Program = Program("diode-server", "diode-server");

/// Builds a program and returns its file. Programs are built one at a time. Built together, the server would get features
/// of libraries that only the command line needs.
pub(crate) fn program(
    Program(package, name): Program,
    target: Target,
    profile: &str,
) -> anyhow::Result<PathBuf> {
    let python = environment("dist-python", &[ZIG, ZIGBUILD], "ziglang")?;
    let zigbuild = python.with_file_name("cargo-zigbuild");
    let zig = zig(&python)?;
    let folder = match profile {
        "dev" => "debug",
        other => other,
    };
    eprintln!("dist: building {name} for {}", target.triple());
    shell::run(
        command(&zigbuild)
            .args(["zigbuild", "--locked", "--profile", profile, "--package", package, "--target"])
            .arg(format!("{}.{GLIBC}", target.triple()))
            .env("CARGO_ZIGBUILD_ZIG_PATH", &zig)
            .env("CARGO_ENCODED_RUSTFLAGS", without_paths()?),
    )?;
    let program = target_folder().join(target.triple()).join(folder).join(name);
    inspect(&program, target)?;
    Ok(program)
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

/// The files that an archive has beside the programs.
const FILES: [&str; 13] = [
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "CHANGELOG.md",
    "packaging/Containerfile",
    "packaging/compose.yaml",
    "packaging/diode-server.service",
    "packaging/diode.toml",
    "packaging/agents/Containerfile.agent",
    "packaging/agents/daemonset.yaml",
    "packaging/agents/diode-agent.service",
    "packaging/agents/diode-agent.slurm",
    "packaging/agents/job.yaml",
];
/// The folder of the released models, which `diode predict` uses.
const MODELS: &str = "trained_models";

/// The name of an archive and of the folder in it.
pub(super) fn name(target: Target) -> String {
    format!("diode-{VERSION}-{}-linux", target.name())
}

/// Writes `diode-VERSION-MACHINE-linux.tar.gz`.
pub(super) fn pack(target: Target, programs: &[PathBuf], into: &Path) -> anyhow::Result<()> {
    let staging = tempfile::tempdir()?;
    let folder = staging.path().join(name(target));
    std::fs::create_dir(&folder)?;
    std::fs::create_dir(folder.join("models"))?;
    let files = FILES.iter().map(|file| root().join(file));
    for file in programs.iter().cloned().chain(files) {
        copy(&file, &folder)?;
    }
    for model in models()? {
        copy(&model, &folder.join("models"))?;
    }
    // Names in a fixed order, one owner, and the time of the commit make the archive reproducible.
    let archive = into.join(format!("{}.tar.gz", name(target)));
    shell::run(
        command("tar")
            .args(["--create", "--use-compress-program=gzip --best --no-name", "--sort=name"])
            .args(["--owner=0", "--group=0", "--numeric-owner", "--mode=u=rwX,go=rX"])
            .arg(format!("--mtime=@{}", time_of_commit()?))
            .arg("--directory")
            .arg(staging.path())
            .arg("--file")
            .arg(&archive)
            .arg(name(target)),
    )
}

fn copy(file: &Path, folder: &Path) -> anyhow::Result<()> {
    let name = file.file_name().context("a file has a name")?;
    std::fs::copy(file, folder.join(name)).with_context(|| format!("cannot copy {}", file.display()))?;
    Ok(())
}

/// Every `*.safetensors` of the repository.
fn models() -> anyhow::Result<Vec<PathBuf>> {
    let listed = output(command("git").args(["ls-files", &format!("{MODELS}/*.safetensors")]))?;
    Ok(listed.lines().map(|file| root().join(file)).collect())
}

/// The time of the commit, in seconds since 1970. No file of a release is younger.
pub(crate) fn time_of_commit() -> anyhow::Result<String> {
    let time = output(command("git").args(["log", "-1", "--format=%ct"]))?;
    Ok(time.trim().to_owned())
}

/// Writes `SHA256SUMS` for all files of a folder. `sha256sum --check` reads it.
pub(super) fn checksums(folder: &Path) -> anyhow::Result<()> {
    let mut names: Vec<_> = std::fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect::<Result<_, _>>()?;
    names.sort();
    let sums = output(command("sha256sum").args(names).current_dir(folder))?;
    #[allow(clippy::disallowed_methods, reason = "a broken write fails the command")]
    std::fs::write(folder.join("SHA256SUMS"), sums)?;
    Ok(())
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
