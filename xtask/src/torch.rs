//! Runs the plug-in's tests, with torch on the CPU and a simulated GPU.
//!
//! torch is installed with CUDA, because its libraries load each other and the CUDA libraries.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;

use crate::shell::{self, cargo, command, target_folder};
use crate::steps::{Count, Steps, count};
use crate::wheel;

/// The torch versions with which the plug-in is tested: the last release of each minor version.
const VERSIONS: [&str; 6] = ["2.10.0", "2.11.0", "2.12.1", "2.13.0", "2.14.1", "2.15.0"];
/// The version with which all daily tests run, including those on GPUs.
const DAILY: &str = "2.11.0";
/// The tests of code that touches torch's insides. All other code is the same with every torch.
const INSIDES: [&str; 14] = [
    "python/tests/test_attention.py",
    "python/tests/test_caches.py",
    "python/tests/test_chain.py",
    "python/tests/test_collect.py",
    "python/tests/test_epilogues.py",
    "python/tests/test_hidden_strides.py",
    "python/tests/test_inductor.py",
    "python/tests/test_installation.py",
    "python/tests/test_lowering.py",
    "python/tests/test_recording.py",
    "python/tests/test_selection.py",
    "python/tests/test_served.py",
    "python/tests/test_steps.py",
    "python/tests/test_untouched.py",
];
const PYTEST: &str = "pytest==9.2.0";
/// The examples are checked with both.
const TYPE_CHECKERS: [&str; 2] = ["mypy==2.4.1", "pyright[nodejs]==1.1.414"];
/// Triton's interpreter, in which a test runs kernels, needs it.
const NUMPY: &str = "numpy==2.4.6";

#[derive(Args)]
pub(crate) struct Options {
    /// Versions of torch, such as 2.15.0; without any, all that the plug-in is known to work with.
    versions: Vec<String>,
}

/// Runs all tests of the plug-in with each version. A version takes 5 GB in the target folder, where it stays.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    // Some tests run these programs.
    shell::run(cargo().args(["build", "--bin", "diode", "--bin", "diode-server"]))?;
    let mut versions: Vec<&str> = options.versions.iter().map(String::as_str).collect();
    if versions.is_empty() {
        versions = VERSIONS.to_vec();
    }
    let mut steps = Steps::default();
    let mut wheel = None;
    for version in versions {
        with_version(&mut steps, version, &mut wheel, &["python/tests"]);
    }
    steps.finish()
}

/// Runs all tests with the daily version. With the newest version, runs only the tests in [`INSIDES`].
/// An environment that was not there before is removed, so that a disk needs room for one at a time.
pub(crate) fn daily(steps: &mut Steps) {
    let mut wheel = None;
    for (version, files) in [(DAILY, &["python/tests"][..]), (VERSIONS[VERSIONS.len() - 1], &INSIDES)] {
        let folder = target_folder().join(environment_name(version));
        let was_there = folder.exists();
        with_version(steps, version, &mut wheel, files);
        if !was_there && let Err(error) = remove(&folder) {
            eprintln!("{error:#}");
        }
    }
}

fn remove(folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    Ok(())
}

/// Runs the tests with one version as a step of its own, so that a failure does not stop the other
/// versions.
fn with_version(steps: &mut Steps, version: &str, wheel: &mut Option<PathBuf>, files: &[&str]) {
    steps.tests(&format!("the plug-in with torch {version}"), || {
        let python = with_torch(version)?;
        let wheel = match wheel {
            Some(wheel) => wheel,
            None => wheel.insert(wheel::for_tests(&python)?),
        };
        pytest(&python, wheel, files)
    });
}

fn environment_name(version: &str) -> String {
    if version == DAILY { "torch-python".to_owned() } else { format!("torch-python-{version}") }
}

fn with_torch(version: &str) -> anyhow::Result<PathBuf> {
    let torch = format!("torch=={version}");
    shell::environment(
        &environment_name(version),
        &[&torch, PYTEST, TYPE_CHECKERS[0], TYPE_CHECKERS[1], NUMPY, wheel::maturin_requirement()],
        "torch, pytest, mypy, pyright, numpy, maturin",
    )
}

fn pytest(python: &Path, wheel: &Path, files: &[&str]) -> anyhow::Result<Count> {
    let install = ["-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall"];
    shell::run(command(python).args(install).arg(wheel))?;
    count(command(python).args(["-m", "pytest", "-q", "--durations=10"]).args(files))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_names_the_same_versions() {
        let source = include_str!("../../python/torch_diode/inductor/__init__.py");
        let line = source.lines().find(|line| line.starts_with("TORCH_TRIED")).unwrap();
        let named: Vec<&str> = line.split('"').skip(1).step_by(2).collect();
        assert_eq!(named, VERSIONS);
        assert!(VERSIONS.contains(&DAILY));
    }

    #[test]
    fn files_of_tests_are_there() {
        for file in INSIDES {
            assert!(shell::root().join(file).is_file(), "{file}");
        }
    }
}
