//! The `diode` command. It describes a node, times matrix multiplications on it, and works with
//! datasets and models of such timings.
#![deny(unsafe_code)]
#![warn(clippy::print_stderr, clippy::print_stdout)]

#[macro_use]
mod output;

mod agent;
mod cli;
mod collect;
mod commands;
mod devices;
mod evaluation;
mod failure;
mod input;
mod interrupt;
mod kernels;
mod node;
mod server;
mod training;

use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::Cli::read(std::env::args_os().collect()) {
        Ok(cli) => match cli.run() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => failure::report(&error),
        },
        // Help and version arrive here, too. It is no failure if their reader has closed the pipe.
        Err(usage) => {
            let _ = usage.print();
            u8::try_from(usage.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
        }
    }
}
