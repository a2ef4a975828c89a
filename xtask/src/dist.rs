//! The parts of a release: programs, wheels, a container's recipe, checksums, the bill of materials and
//! notes.

mod bare;
mod bill;
mod programs;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};

use crate::dist::programs::SERVER;
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
        bare::can_try(&targets)?;
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
    if options.try_out { bare::try_out(&folder, &targets) } else { Ok(()) }
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
