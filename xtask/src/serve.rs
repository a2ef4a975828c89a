//! Everything built, seeded and running with one command.

use clap::Args;

use crate::shell::{self, cargo, command, target_folder};
use crate::{setup, web};

#[derive(Args)]
pub(crate) struct Options {
    /// Where the dashboard listens.
    #[arg(long, default_value = "127.0.0.1:8080")]
    listen: String,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    setup::wasm_target()?;
    web::build()?;
    eprintln!("serve: building the server");
    shell::run(cargo().args(["build", "--package", "diode-server"]))?;
    let server = target_folder().join("debug/diode-server");
    shell::run(command(&server).args(["admin", "seed", "trained_models"]))?;
    shell::run(command(&server).args(["serve", "--listen", &options.listen]))
}
