//! Makes a book of the documents, and finds broken links between them.
//!
//! It is a crate of its own, because mdBook takes a minute to compile and only `cargo xtask docs`
//! needs it.
#![forbid(unsafe_code)]

mod book;
mod check;

use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["build", root] => book::build(Path::new(root))?,
        ["check", root] => {
            let problems = check::problems(Path::new(root))?;
            for problem in &problems {
                eprintln!("{problem}");
            }
            if !problems.is_empty() {
                bail!("{} links lead nowhere", problems.len());
            }
        }
        _ => bail!("usage: diode-docs build ROOT, or diode-docs check ROOT"),
    }
    Ok(ExitCode::SUCCESS)
}
