//! The developer's commands: `cargo xtask …`.
#![forbid(unsafe_code)]

mod bench;
mod check;
mod dist;
mod setup;
mod shell;
mod steps;
mod torch;
mod web;
mod wheel;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Builds, runs and tests Diode.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Install what the other commands need and this machine lacks.
    Setup,
    /// Build the server and the dashboard, seed a database with real data of two GPUs, and serve both.
    Serve(web::Options),
    /// Run every check and test there is.
    Test(steps::Options),
    /// Run the plug-in's tests with every torch that it serves.
    Torch(torch::Options),
    /// Run the checks that need no tests: format, lints, dependencies, Python, documentation.
    Check,
    /// Build the dashboard into web/dist, as the server embeds it.
    Web,
    /// Build the documents into docs/book, as the server hands them out, or check them.
    Docs(check::Options),
    /// Run the benchmarks.
    Bench(bench::Options),
    /// Build a release into target/dist: programs, wheels, checksums, bill of materials, notes.
    Dist(dist::Options),
    /// Build the Python wheels.
    Wheel,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Setup => setup::install(),
        Command::Serve(options) => web::serve(&options),
        Command::Test(options) => steps::run(&options),
        Command::Torch(options) => torch::run(&options),
        Command::Check => check::run(),
        Command::Web => web::build(),
        Command::Docs(options) => check::docs(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Dist(options) => dist::run(&options),
        Command::Wheel => wheel::run(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
