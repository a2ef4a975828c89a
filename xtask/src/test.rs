//! Runs all checks and tests.

use std::process::Stdio;

use anyhow::{Context, bail};
use clap::Args;

use crate::junit::{Test, forget, outcome};
use crate::postgres::{Durability, Postgres};
use crate::shell::{cargo, exists, root, status};
use crate::steps::Steps;
use crate::{check, setup, torch, web};

#[derive(Args)]
pub(crate) struct Options {
    /// Pass on to nextest: names of tests to run (the checks and the other tests are then left out).
    filter: Vec<String>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    setup::run()?;
    let mut steps = Steps::default();
    let everything = options.filter.is_empty();
    if everything {
        check::before_building(&mut steps);
    }
    // This build comes first, because the server serves its files.
    steps.check("dashboard", web::build);
    match Postgres::start(Durability::None) {
        Ok(postgres) => steps.tests("tests", || nextest(&postgres, &options.filter)),
        Err(error) => steps.check("PostgreSQL", || Err(error)),
    }
    if everything {
        // These tests come later, because they run the programs that the tests before have built.
        torch::daily(&mut steps);
        steps.tests("doctests", doctests);
        check::compiling(&mut steps);
    }
    steps.finish()
}

fn nextest(postgres: &Postgres, filter: &[String]) -> anyhow::Result<Vec<Test>> {
    if !exists("chromedriver") {
        bail!("chromedriver is missing; run `cargo xtask setup`");
    }
    // nextest writes its reports there, even if cargo builds elsewhere.
    let report = root().join("target/nextest/default/junit.xml");
    forget(&report)?;
    let mut nextest = cargo();
    nextest.args(["nextest", "run", "--workspace"]).args(filter);
    let status = status(nextest.env("DIODE_TEST_POSTGRES_URL", postgres.url()))?;
    outcome("nextest", status, &report)
}

/// Runs the doctests and reads their output, because stable Rust writes no report for `cargo test
/// --doc`.
fn doctests() -> anyhow::Result<Vec<Test>> {
    let output = cargo()
        .args(["test", "--workspace", "--doc", "--no-fail-fast"])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo test")?;
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    let tests: Vec<Test> = text.lines().filter_map(doctest).collect();
    if !output.status.success() && tests.iter().all(|test| test.passed) {
        bail!("the doctests did not build: {}", output.status);
    }
    Ok(tests)
}

/// Reads a line like `test shared/core/src/ids.rs - ids::Digest (line 12) ... ok`.
fn doctest(line: &str) -> Option<Test> {
    let (name, outcome) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let passed = match outcome {
        "ok" => true,
        "FAILED" => false,
        _ => return None,
    };
    Some(Test { name: name.to_owned(), seconds: 0.0, passed, again: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_doctests_are_read() {
        let text = "running 3 tests
test shared/core/src/ids.rs - ids::Digest (line 12) ... ok
test shared/core/src/ids.rs - ids::Slug (line 40) - compile ... FAILED
test shared/core/src/ids.rs - ids::Name (line 60) ... ignored
test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out";
        let seen: Vec<_> = text.lines().filter_map(doctest).map(|test| (test.name, test.passed)).collect();
        assert_eq!(
            seen,
            [
                ("shared/core/src/ids.rs - ids::Digest (line 12)".to_owned(), true),
                ("shared/core/src/ids.rs - ids::Slug (line 40) - compile".to_owned(), false)
            ]
        );
    }
}
