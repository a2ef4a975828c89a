//! Checks that run no tests: format, lints, documentation.

use crate::shell::{self, cargo};
use crate::steps::Steps;
use crate::{setup, web};

pub(crate) fn run() -> anyhow::Result<()> {
    setup::wasm_target()?;
    let mut steps = Steps::default();
    before_building(&mut steps);
    compiling(&mut steps);
    steps.finish()
}

/// What takes seconds.
pub(crate) fn before_building(steps: &mut Steps) {
    steps.check("rustfmt", || shell::run(cargo().args(["fmt", "--all", "--check"])));
}

/// What compiles the workspace as far as its types.
pub(crate) fn compiling(steps: &mut Steps) {
    const DENY: [&str; 3] = ["--", "-D", "warnings"];
    steps.check("clippy", || shell::run(cargo().args(["clippy", "--workspace", "--all-targets"]).args(DENY)));
    steps.check("clippy for the browser", || {
        let target = ["clippy", "--package", "diode-web", "--target", web::WASM];
        shell::run(cargo().args(target).args(DENY))
    });
    steps.check("documentation", || {
        shell::run(cargo().env("RUSTDOCFLAGS", "-D warnings").args(["doc", "--workspace", "--no-deps"]))
    });
}
