//! Runs all checks and tests, each by its name, goes on after a failure and ends with a count.

use std::io::{BufRead as _, BufReader};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use clap::Args;

use crate::setup::{Durability, Postgres};
use crate::shell::{cargo, exists};
use crate::{check, setup, torch, web};

/// Counts passed and failed checks, and remembers names and times.
#[derive(Default)]
pub(crate) struct Steps {
    passed: usize,
    failed: usize,
    failures: Vec<String>,
    times: Vec<(String, Duration)>,
}

/// How many tests a runner has run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Count {
    passed: usize,
    failed: usize,
}

impl Steps {
    /// Runs a check that passes or fails as a whole.
    pub(crate) fn check(&mut self, name: &str, check: impl FnOnce() -> anyhow::Result<()>) {
        self.tests(name, || check().map(|()| Count { passed: 1, failed: 0 }));
    }

    /// Runs a check that consists of tests.
    pub(crate) fn tests(&mut self, name: &str, check: impl FnOnce() -> anyhow::Result<Count>) {
        eprintln!("\n=== {name}");
        let started = Instant::now();
        let outcome = check();
        let time = started.elapsed();
        self.times.push((name.to_owned(), time));
        match outcome {
            Ok(Count { passed, failed }) => {
                eprintln!("=== {name}: {} s", time.as_secs());
                self.passed += passed;
                self.failed += failed;
                if failed > 0 {
                    self.failures.push(format!("{name}: {failed} (named above)"));
                }
            }
            Err(error) => {
                eprintln!("=== {name} FAILED in {} s: {error:#}", time.as_secs());
                // Named again at the end, because often only the end of a long log is kept.
                self.failures.push(format!("{name}: {error:#}"));
                self.failed += 1;
            }
        }
    }

    /// Prints where the time went, and the closing line. Returns an error if anything failed.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        eprintln!("\nseconds of each step");
        for (name, time) in &self.times {
            eprintln!("{:7.1}  {name}", time.as_secs_f64());
        }
        for failure in &self.failures {
            eprintln!("failed: {failure}");
        }
        println!("{} passed, {} failed", self.passed, self.failed);
        if self.failed == 0 { Ok(()) } else { bail!("not all checks passed") }
    }
}

/// Runs a test runner, shows what it prints and adds up its closing lines. A runner that fails must count a failed
/// test, and one that passes must count a test.
pub(crate) fn count(runner: &mut Command) -> anyhow::Result<Count> {
    let name = runner.get_program().to_string_lossy().into_owned();
    let (reader, writer) = std::io::pipe()?;
    runner.stdout(writer.try_clone()?).stderr(writer);
    let mut child = runner.spawn().with_context(|| format!("cannot start {name}"))?;
    // The command holds the pipe's other end, too. The output would never end.
    runner.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut total = Count::default();
    for line in BufReader::new(reader).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        println!("{line}");
        if let Some(count) = closing(&line) {
            total.passed += count.passed;
            total.failed += count.failed;
        }
    }
    let status = child.wait()?;
    ensure!(
        status.success() || total.failed > 0,
        "{name} ended with {status}, and names no test that failed"
    );
    ensure!(total.passed + total.failed > 0, "{name} ran no test");
    Ok(total)
}

/// Reads the closing line of nextest, pytest or `cargo test`.
fn closing(line: &str) -> Option<Count> {
    let after = |mark| line.split_once(mark).map(|(_, counts)| counts);
    // A failed test's own output may hold a closing line, too. nextest indents it, so the others begin their lines.
    let pytests =
        || (line.starts_with(|c: char| c.is_ascii_digit()) && line.contains(" in ")).then_some(line);
    let counts = after(" tests run: ")
        .or_else(|| after(" test run: "))
        .or_else(|| line.strip_prefix("test result: "))
        .or_else(pytests)?;
    let words: Vec<&str> = counts.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let of = |kinds: &[&str]| -> usize {
        let pairs = words.windows(2).filter(|pair| kinds.contains(&pair[1]));
        pairs.filter_map(|pair| pair[0].parse::<usize>().ok()).sum()
    };
    Some(Count { passed: of(&["passed"]), failed: of(&["failed", "timed", "exec", "error", "errors"]) })
}

#[derive(Args)]
pub(crate) struct Options {
    /// Pass on to nextest: names of tests to run (the checks and the other tests are then left out).
    filter: Vec<String>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    setup::install()?;
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

fn nextest(postgres: &Postgres, filter: &[String]) -> anyhow::Result<Count> {
    if !exists("chromedriver") {
        bail!("chromedriver is missing; run `cargo xtask setup`");
    }
    let mut nextest = cargo();
    nextest.args(["nextest", "run", "--workspace", "--final-status-level", "slow"]).args(filter);
    count(nextest.env("DIODE_TEST_POSTGRES_URL", postgres.url()))
}

fn doctests() -> anyhow::Result<Count> {
    count(cargo().args(["test", "--workspace", "--doc", "--no-fail-fast"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_are_read() {
        let read = |line: &str| closing(line).map(|count| (count.passed, count.failed));
        for (line, expected) in [
            ("     Summary [   5.142s] 12 tests run: 12 passed (1 flaky), 3 skipped", Some((12, 0))),
            (
                "     Summary [   5.142s] 6/12 tests run: 3 passed (1 slow), 2 failed, 1 timed out, 3 skipped",
                Some((3, 3)),
            ),
            ("     Summary [   0.003s] 1 test run: 0 passed, 1 exec failed, 0 skipped", Some((0, 1))),
            ("404 passed, 2 skipped, 3 xfailed in 120.33s (0:02:00)", Some((404, 0))),
            ("1 failed, 403 passed, 2 errors in 98.10s", Some((403, 3))),
            (
                "test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.5s",
                Some((1, 1)),
            ),
            ("    1 failed, 2 passed in 0.50s", None),
            ("    test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 9 filtered out", None),
            ("        PASS [   0.004s] diode-core dtype::tests::sizes", None),
            ("3 files were written in 2 folders", Some((0, 0))),
            ("running 3 tests", None),
        ] {
            assert_eq!(read(line), expected, "{line}");
        }
    }

    #[test]
    fn a_runner_that_counts_nothing_fails() {
        let shell = |code: &str| count(Command::new("sh").args(["-c", code]));
        assert_eq!(shell("echo 2 passed in 1s").unwrap(), Count { passed: 2, failed: 0 });
        assert_eq!(shell("echo 1 failed in 1s >&2; exit 1").unwrap(), Count { passed: 0, failed: 1 });
        for nothing in ["true", "echo 2 passed in 1s; exit 3"] {
            assert!(shell(nothing).is_err(), "{nothing}");
        }
    }
}
