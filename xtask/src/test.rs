//! Every check and test there is.

use std::process::Stdio;

use anyhow::{Context, bail};
use clap::Args;

use crate::postgres::Postgres;
use crate::shell::{self, cargo, command, exists};
use crate::steps::{Steps, Tally};
use crate::{python, setup, web, wheel};

/// The triple the dashboard is built for.
const WASM: &str = "wasm32-unknown-unknown";

#[derive(Args)]
pub(crate) struct Options {
    /// Pass on to nextest: names of tests to run (formatting, lints and docs are then left out).
    filter: Vec<String>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    setup::run()?;
    let mut steps = Steps::default();
    let everything = options.filter.is_empty();
    if everything {
        steps.check("rustfmt", || shell::run(cargo().args(["fmt", "--all", "--check"])));
    }
    // First of the builds: the server embeds what it makes.
    steps.check("dashboard", || web::build().map(|_| ()));
    match Postgres::start() {
        Ok(postgres) => {
            steps.count("tests", || nextest(&postgres, &options.filter));
        }
        Err(error) => steps.check("PostgreSQL", || Err(error)),
    }
    if everything {
        steps.count("doctests", doctests);
        steps.check("clippy", || {
            shell::run(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
        });
        steps.check("clippy for the browser", || {
            shell::run(cargo().args([
                "clippy",
                "--package",
                "diode-web",
                "--target",
                WASM,
                "--",
                "-D",
                "warnings",
            ]))
        });
        // After the tests: it runs the programs that they have built.
        steps.count("the torch.compile plug-in", plugin);
        steps.check("documentation", || {
            shell::run(cargo().env("RUSTDOCFLAGS", "-D warnings").args(["doc", "--workspace", "--no-deps"]))
        });
    }
    steps.finish()
}

fn nextest(postgres: &Postgres, filter: &[String]) -> anyhow::Result<Tally> {
    if !exists("chromedriver") {
        bail!("chromedriver is missing; run `cargo xtask setup`");
    }
    let output = cargo()
        .args(["nextest", "run", "--workspace"])
        .args(filter)
        .env("DIODE_TEST_POSTGRES_URL", postgres.url())
        .stdout(Stdio::inherit())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot start cargo nextest")?;
    let text = tee_stderr(output)?;
    tally(&text).context("nextest printed no summary; see its output above")
}

/// The tests of `python/tests`, with torch on the CPU and a GPU that is simulated.
///
/// torch is installed whole: its libraries name each other and the CUDA libraries when they are loaded.
fn plugin() -> anyhow::Result<Tally> {
    let requirements = [TORCH, PYTEST, wheel::maturin_requirement()];
    let python = python::environment("torch-python", &requirements, "torch, pytest, maturin")?;
    let wheel = wheel::for_tests(&python)?;
    let install = ["-m", "pip", "install", "--quiet", "--no-deps", "--force-reinstall"];
    shell::run(command(&python).args(install).arg(wheel))?;
    let output = command(&python)
        .args(["-m", "pytest", "-q", "python/tests"])
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start pytest")?;
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    let tally = pytest_tally(&text).context("pytest printed no summary; see its output above")?;
    if !output.status.success() && tally.failed == 0 {
        bail!("pytest ended with {}", output.status);
    }
    Ok(tally)
}

const TORCH: &str = "torch==2.11.0";
const PYTEST: &str = "pytest==9.2.0";

/// Reads pytest's last line: `2 failed, 140 passed, 1 skipped, 14 warnings, 1 error in 86.35s`.
fn pytest_tally(text: &str) -> Option<Tally> {
    let failures = [" failed", " error"];
    let counts = |line: &&str| [" passed", failures[0], failures[1]].iter().any(|word| line.contains(word));
    let line = text.lines().rev().find(counts)?;
    Some(Tally {
        passed: number_before(line, " passed").unwrap_or(0),
        failed: failures.iter().filter_map(|word| number_before(line, word)).sum(),
    })
}

/// `cargo test --doc` prints one summary per crate.
fn doctests() -> anyhow::Result<Tally> {
    let output = cargo()
        .args(["test", "--workspace", "--doc", "--no-fail-fast"])
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo test")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    print!("{text}");
    let mut total = Tally { passed: 0, failed: 0 };
    for line in text.lines().filter(|line| line.starts_with("test result:")) {
        total.passed += number_before(line, " passed").unwrap_or(0);
        total.failed += number_before(line, " failed").unwrap_or(0);
    }
    if !output.status.success() && total.failed == 0 {
        bail!("the doctests did not build: {}", output.status);
    }
    Ok(total)
}

/// Shows a child's stderr as it comes and keeps it.
fn tee_stderr(mut child: std::process::Child) -> anyhow::Result<String> {
    use std::io::{BufRead as _, BufReader};
    let stderr = child.stderr.take().context("stderr is piped")?;
    let mut text = String::new();
    for line in BufReader::new(stderr).lines() {
        let line = line?;
        eprintln!("{line}");
        text.push_str(&line);
        text.push('\n');
    }
    child.wait()?;
    Ok(text)
}

/// Reads nextest's summary: `12 tests run: 10 passed (1 slow), 2 failed, 0 skipped`.
fn tally(text: &str) -> Option<Tally> {
    let line = text.lines().rev().find(|line| line.contains("Summary ["))?;
    let failures = [" failed", " timed out", " exec failed"];
    Some(Tally {
        passed: number_before(line, " passed")?,
        failed: failures.iter().filter_map(|word| number_before(line, word)).sum(),
    })
}

fn number_before(line: &str, word: &str) -> Option<usize> {
    let before = &line[..line.find(word)?];
    before.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_are_read() {
        let text =
            "     Summary [   0.060s] 23 tests run: 20 passed (1 slow), 2 failed, 1 timed out, 0 skipped";
        let tally = tally(text).unwrap();
        assert_eq!((tally.passed, tally.failed), (20, 3));
        assert!(super::tally("nothing ran").is_none());
        let tally =
            pytest_tally("...F\n2 failed, 140 passed, 14 warnings, 1 error in 86.35s (0:01:26)\n").unwrap();
        assert_eq!((tally.passed, tally.failed), (140, 3));
        let tally = pytest_tally("ERROR test_core.py\n1 warning, 1 error in 6.76s\n").unwrap();
        assert_eq!((tally.passed, tally.failed), (0, 1), "nothing ran, and that is a failure");
    }
}
