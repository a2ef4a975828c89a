//! Every check and test there is.

use std::process::Stdio;

use anyhow::{Context, bail};
use clap::Args;

use crate::postgres::Postgres;
use crate::shell::{self, cargo, exists};
use crate::steps::{Steps, Tally};
use crate::{setup, web};

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
    }
}
