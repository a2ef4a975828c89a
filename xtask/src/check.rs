//! Checks without tests: format, lints, dependencies, Python and documentation.

use crate::shell::{self, cargo, command};
use crate::steps::Steps;
use crate::{dependencies, docs, python, setup, web};

/// ruff checks format and lints, and mypy types. mypy needs pytest for the types in the tests.
const PYTHON: [&str; 3] = ["ruff==0.17.6", "mypy==2.4.1", "pytest==9.2.0"];

pub(crate) fn run() -> anyhow::Result<()> {
    setup::wasm_target()?;
    let mut steps = Steps::default();
    before_building(&mut steps);
    compiling(&mut steps);
    steps.finish()
}

/// Checks that compile none of our code.
pub(crate) fn before_building(steps: &mut Steps) {
    steps.check("rustfmt", || shell::run(cargo().args(["fmt", "--all", "--check"])));
    steps.check("dependencies", dependencies::check);
    steps.check("Python", python_sources);
}

fn python_sources() -> anyhow::Result<()> {
    let python = python::environment("python-checks", &PYTHON, "ruff, mypy, pytest")?;
    let checks: [&[&str]; 4] = [
        &["ruff", "check", "."],
        &["ruff", "format", "--check", "."],
        &["mypy"],
        &["mypy", "--no-strict-optional", "--no-warn-unreachable", "python/tests"],
    ];
    for check in checks {
        shell::run(command(&python).arg("-m").args(check))?;
    }
    Ok(())
}

/// Checks that compile the workspace, but only to check types.
pub(crate) fn compiling(steps: &mut Steps) {
    const DENY: [&str; 3] = ["--", "-D", "warnings"];
    steps.check("clippy", || shell::run(cargo().args(["clippy", "--workspace", "--all-targets"]).args(DENY)));
    steps.check("clippy for the browser", || {
        let packages = ["diode-web", web::CHECKER, web::RANKER].map(|package| ["--package", package]);
        let clippy = ["clippy", "--target", web::WASM];
        shell::run(cargo().args(clippy).args(packages.as_flattened()).args(DENY))
    });
    steps.check("documentation", || {
        shell::run(cargo().env("RUSTDOCFLAGS", "-D warnings").args(["doc", "--workspace", "--no-deps"]))
    });
    steps.check("links of documents", docs::links);
    steps.check("spelling", docs::spelling);
}
