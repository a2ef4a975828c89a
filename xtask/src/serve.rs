//! Everything built, seeded and running with one command.

use clap::Args;

use crate::shell::{self, cargo, command, target_folder};
use crate::web;

#[derive(Args)]
pub(crate) struct Options {
    /// Where the dashboard listens.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: String,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let step = |number: u8, what: &str| eprintln!("serve: step {number} of 4: {what}");
    step(1, "the dashboard");
    web::build()?;
    step(2, "the server");
    shell::run(cargo().args(["build", "--package", "diode-server"]))?;
    let server = target_folder().join("debug/diode-server");
    step(3, "the data, which is brought in once");
    shell::run(command(&server).args(["admin", "seed", "trained_models"]))?;
    step(4, "the dashboard is served until you press Ctrl-C");
    shell::run(command(&server).args(["serve", "--listen", &options.listen]))
}
