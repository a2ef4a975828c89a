//! The machines for which releases are built.

use std::path::Path;

use anyhow::{Context, bail};
use clap::ValueEnum;

use crate::shell::{self, command, exists, output};

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
