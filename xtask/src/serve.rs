//! Builds, seeds and runs the server and the dashboard with one command.

use clap::Args;

use crate::shell::{self, cargo, command, root, target_folder};
use crate::web;

#[derive(Args)]
pub(crate) struct Options {
    /// Where the dashboard listens.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: String,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let step = |number: u8, what: &str| eprintln!("serve: step {number} of 3: {what}");
    step(1, "the dashboard and the server are compiled side by side");
    compile()?;
    web::make_files()?;
    let server = target_folder().join("debug/diode-server");
    step(2, "the data, which is brought in once");
    shell::run(command(&server).args(["admin", "seed", "trained_models"]))?;
    step(3, "the dashboard is served until you press Ctrl-C");
    shell::run(command(&server).args(["serve", "--listen", &options.listen]))
}

/// Compiles the server and the dashboard at the same time. They use different folders of cargo, and the
/// dashboard ends in a long step on one core, so together they take less time.
fn compile() -> anyhow::Result<()> {
    // The server reads the dashboard and the documents at run time, but only if their folders exist when it
    // is compiled.
    for folder in ["web/dist", "docs/book"] {
        std::fs::create_dir_all(root().join(folder))?;
    }
    std::thread::scope(|scope| {
        let dashboard = scope.spawn(web::compile);
        let host = ["build", "--package", "diode-server", "--package", web::BUNDLE];
        let server = shell::run(cargo().args(host));
        // A panic of the other thread is a fault of this program, so it ends this program, too.
        let dashboard = dashboard.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        server.and(dashboard)
    })
}
