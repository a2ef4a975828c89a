//! The dashboard: compiled to WebAssembly, then made into the files that the server hands out.

use crate::setup;
use crate::shell::{self, cargo, root, target_folder};

/// The triple the dashboard is built for.
pub(crate) const WASM: &str = "wasm32-unknown-unknown";

/// Builds web/dist.
pub(crate) fn build() -> anyhow::Result<()> {
    setup::wasm_target()?;
    eprintln!("web: compiling the dashboard");
    shell::run(cargo().args(["build", "--package", "diode-web", "--target", WASM, "--profile", "web"]))?;
    eprintln!("web: making its files");
    let wasm = target_folder().join(WASM).join("web/diode-web.wasm");
    shell::run(
        cargo()
            .args(["run", "--package", "diode-bundle", "--"])
            .arg(wasm)
            .args([root().join("web"), root().join("web/dist")]),
    )
}
