//! Builds the dashboard: compiles it to WebAssembly, and makes the files that the server serves.

use std::process::Command;

use crate::setup;
use crate::shell::{self, cargo, command, root, target_folder};

/// The target triple of the dashboard.
pub(crate) const WASM: &str = "wasm32-unknown-unknown";

/// The package of the program that makes the files.
pub(crate) const BUNDLE: &str = "diode-bundle";

/// The package of the program that checks files before they are sent.
pub(crate) const CHECKER: &str = "diode-checker";

/// The package of the program that ranks lists.
pub(crate) const RANKER: &str = "diode-ranker";

/// Builds web/dist.
pub(crate) fn build() -> anyhow::Result<()> {
    compile()?;
    shell::run(cargo().args(["build", "--package", BUNDLE]))?;
    make_files()
}

pub(crate) fn compile() -> anyhow::Result<()> {
    setup::wasm_target()?;
    eprintln!("web: compiling the dashboard");
    let build = ["rustc", "--package", "diode-web", "--target", WASM, "--profile", "web"];
    // The linker must keep the relocations, because the program is cut into pieces by them. A visit
    // downloads the pieces one after the other.
    let link = ["--", "-C", "link-arg=--emit-relocs"];
    // Two progress bars in one terminal would overwrite each other.
    let quietly = |build: &mut Command| shell::run(build.env("CARGO_TERM_PROGRESS_WHEN", "never"));
    quietly(cargo().args(build).args(link))?;
    let workers = ["build", "--package", CHECKER, "--package", RANKER, "--target", WASM, "--profile", "web"];
    quietly(cargo().args(workers))
}

/// Makes the files from the compiled programs.
pub(crate) fn make_files() -> anyhow::Result<()> {
    eprintln!("web: making its files");
    let compiled = target_folder().join(WASM).join("web");
    let programs = ["diode-web.wasm", "diode_checker.wasm", "diode_ranker.wasm"];
    shell::run(
        command(target_folder().join("debug").join(BUNDLE))
            .args(programs.map(|name| compiled.join(name)))
            .args([root().join("web"), root().join("web/dist")]),
    )
}
