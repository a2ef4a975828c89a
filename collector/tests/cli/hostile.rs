//! Files that are broken, forged or of a wrong kind. The command must say in one line what is
//! wrong, and no file may make it take more than 256 MiB.

mod binary;
mod datasets;
mod json;
mod rows;
mod shape_sets;
mod solutions;
mod tables;

use std::process::{Command, Output};

use diode_core::Dataset;

use crate::datasets::DATASET;
use crate::sandbox::{Sandbox, stderr};

/// The limit of the command's address space in KiB. An address space is at least as large as the
/// memory in use.
const MEMORY: u32 = 256 << 10;

/// A file's name, its bytes, and words in the error that it must lead to.
struct Bad(&'static str, Vec<u8>, &'static str);

/// Runs the command with limited memory. If it needs more, it is killed, so the exit code is not 1.
fn limited(sandbox: &Sandbox, arguments: &[&str]) -> Output {
    let command = sandbox.command(arguments);
    let mut limited = if cfg!(target_os = "linux") {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -v {MEMORY} && exec \"$@\""), "sh"]).arg(command.get_program());
        shell
    } else {
        Command::new(command.get_program())
    };
    limited.args(command.get_args()).current_dir(sandbox.path("")).output().unwrap()
}

/// What is wrong with the output of a command, if anything.
fn judge(name: &str, words: &str, output: &Output) -> Option<String> {
    let text = stderr(output);
    let errors = text.lines().filter(|line| line.starts_with("error: ") && line.contains(words)).count();
    let good = output.status.code() == Some(1) && errors == 1 && text.lines().count() == 1;
    (!good).then(|| format!("{name}: {}: expected {words:?}, got {:.400}", output.status, text.trim()))
}

fn small() -> Vec<Dataset> {
    diode_formats::decode(DATASET.as_bytes()).unwrap().datasets
}

/// A file of some tens of kilobytes that expands to 256 MiB.
fn bomb(head: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
    std::io::Write::write_all(&mut encoder, head).unwrap();
    let piece = vec![b'a'; 1 << 20];
    for _ in 0..256 {
        std::io::Write::write_all(&mut encoder, &piece).unwrap();
    }
    encoder.finish().unwrap()
}
