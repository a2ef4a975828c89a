//! Builds the dashboard: compiles it to WebAssembly, and makes the files that the server serves.

use std::process::Command;

use clap::Args;

use crate::setup;
use crate::shell::{self, cargo, command, root, target_folder};

/// The target triple of the dashboard.
pub(crate) const WASM: &str = "wasm32-unknown-unknown";

/// The package of the program that makes the files.
pub(crate) const BUNDLE: &str = "diode-bundle";

/// The package of the program that the dashboard runs in workers.
pub(crate) const WORKER: &str = "diode-worker";

/// Builds web/dist.
pub(crate) fn build() -> anyhow::Result<()> {
    compile()?;
    shell::run(cargo().args(["build", "--package", BUNDLE]))?;
    make_files()
}

fn compile() -> anyhow::Result<()> {
    setup::wasm_target()?;
    eprintln!("web: compiling the dashboard");
    let build = ["rustc", "--package", "diode-web", "--target", WASM, "--profile", "web"];
    // The linker must keep the relocations, because the program is cut into pieces by them. A visit
    // downloads the pieces one after the other.
    let link = ["--", "-C", "link-arg=--emit-relocs"];
    // Two progress bars in one terminal would overwrite each other.
    let quietly = |build: &mut Command| shell::run(build.env("CARGO_TERM_PROGRESS_WHEN", "never"));
    quietly(cargo().args(build).args(link))?;
    quietly(cargo().args(["build", "--package", WORKER, "--target", WASM, "--profile", "web"]))
}

/// Makes the files from the compiled programs.
fn make_files() -> anyhow::Result<()> {
    eprintln!("web: making its files");
    let compiled = target_folder().join(WASM).join("web");
    let programs = ["diode-web.wasm", "diode-worker.wasm"];
    shell::run(
        command(target_folder().join("debug").join(BUNDLE))
            .args(programs.map(|name| compiled.join(name)))
            .args([root().join("web"), root().join("web/dist")]),
    )
}

#[derive(Args)]
pub(crate) struct Options {
    /// Where the dashboard listens.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: String,
}

pub(crate) fn serve(options: &Options) -> anyhow::Result<()> {
    let step = |number: u8, what: &str| eprintln!("serve: step {number} of 3: {what}");
    step(1, "the dashboard and the server are compiled side by side");
    compile_with_server()?;
    make_files()?;
    let server = target_folder().join("debug/diode-server");
    step(2, "the data, which is brought in once");
    shell::run(command(&server).args(["admin", "seed", "trained_models"]))?;
    step(3, "the dashboard is served until you press Ctrl-C");
    shell::run(command(&server).args(["serve", "--listen", &options.listen]))
}

/// Compiles the server and the dashboard at the same time. They use different folders of cargo, and the
/// dashboard ends in a long step on one core, so together they take less time.
fn compile_with_server() -> anyhow::Result<()> {
    // The server reads the dashboard and the documents at run time, but only if their folders exist when it
    // is compiled.
    for folder in ["web/dist", "docs/book"] {
        std::fs::create_dir_all(root().join(folder))?;
    }
    std::thread::scope(|scope| {
        let dashboard = scope.spawn(compile);
        let host = ["build", "--package", "diode-server", "--package", BUNDLE];
        let server = shell::run(cargo().args(host));
        // A panic of the other thread is a fault of this program, so it ends this program, too.
        let dashboard = dashboard.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        server.and(dashboard)
    })
}
