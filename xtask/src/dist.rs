//! The parts of a release: programs, wheels, a container's recipe, checksums, the bill of materials and
//! notes.

mod archive;
mod bare;
mod bill;
mod notes;
mod programs;
mod target;

use std::path::PathBuf;

use clap::Args;

pub(crate) use archive::time_of_commit;
pub(crate) use programs::{ZIG, without_paths, zig};
pub(crate) use target::Target;

use crate::shell::target_folder;
use crate::{docs, web, wheel};

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
    let notes = notes::of_this_version()?;
    for target in &targets {
        target.add()?;
    }
    // The dashboard and the documents are built first, because the server contains them.
    web::build()?;
    docs::build()?;
    for target in &targets {
        let programs = programs::build(*target, &options.profile)?;
        archive::pack(*target, &programs, &folder)?;
    }
    wheel::build(&targets, &options.profile, &folder)?;
    bill::write(&targets, &folder.join(format!("diode-{VERSION}.cdx.json")))?;
    #[allow(
        clippy::disallowed_methods,
        reason = "the checksums, written last, tell a whole release from half a one"
    )]
    std::fs::write(folder.join("RELEASE_NOTES.md"), notes)?;
    archive::checksums(&folder)?;
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
