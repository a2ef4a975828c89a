//! Runs other programs.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, bail};

/// The root folder of the workspace.
pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The folder where cargo puts what it builds.
pub(crate) fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// A program that starts in the workspace's root folder.
pub(crate) fn command(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    command.current_dir(root());
    command
}

/// The cargo that runs this xtask.
pub(crate) fn cargo() -> Command {
    command(std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from))
}

/// Runs a command with its output shown, and returns how it ended.
pub(crate) fn status(command: &mut Command) -> anyhow::Result<ExitStatus> {
    command.status().with_context(|| format!("cannot start {}", shown(command)))
}

/// Runs a command and shows its output. An error names the command.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let status = status(command)?;
    if !status.success() {
        bail!("{} failed: {status}", shown(command));
    }
    Ok(())
}

/// Runs a command and returns what it prints on stdout.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {}", shown(command)))?;
    if !output.status.success() {
        bail!("{} failed: {}", shown(command), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether a program is in the search path.
pub(crate) fn exists(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}

/// A command as errors name it. A command with hundreds of files is cut, so that the reason after it stays
/// visible.
fn shown(command: &Command) -> String {
    const LONGEST: usize = 400;
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    let line = words.join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((cut, _)) => format!("`{} …`", &line[..cut]),
        None => format!("`{line}`"),
    }
}
