//! Runs named checks, goes on after a failure and ends with a count.

use std::time::{Duration, Instant};

use crate::junit::Test;

/// How many of the slowest tests are named at the end.
const SLOWEST: usize = 10;

/// Counts passed and failed checks, and remembers names and times.
#[derive(Default)]
pub(crate) struct Steps {
    passed: usize,
    failures: Vec<String>,
    times: Vec<(String, Duration)>,
    tests: Vec<Test>,
}

impl Steps {
    /// Runs a check that passes or fails as a whole.
    pub(crate) fn check(&mut self, name: &str, check: impl FnOnce() -> anyhow::Result<()>) {
        if let Some(()) = self.step(name, check) {
            self.passed += 1;
        }
    }

    /// Runs a check that consists of tests.
    pub(crate) fn tests(&mut self, name: &str, check: impl FnOnce() -> anyhow::Result<Vec<Test>>) {
        for test in self.step(name, check).unwrap_or_default() {
            if test.passed {
                self.passed += 1;
            } else {
                self.failures.push(test.name.clone());
            }
            self.tests.push(test);
        }
    }

    fn step<T>(&mut self, name: &str, check: impl FnOnce() -> anyhow::Result<T>) -> Option<T> {
        eprintln!("\n=== {name}");
        let started = Instant::now();
        let outcome = check();
        let time = started.elapsed();
        self.times.push((name.to_owned(), time));
        match outcome {
            Ok(done) => {
                eprintln!("=== {name}: {} s", time.as_secs());
                Some(done)
            }
            Err(error) => {
                eprintln!("=== {name} FAILED in {} s: {error:#}", time.as_secs());
                // The failure is named again at the end, because often only the end of a long log
                // is kept.
                self.failures.push(format!("{name}: {error:#}"));
                None
            }
        }
    }

    /// Prints where the time went, and the closing line. Returns an error if anything failed.
    pub(crate) fn finish(mut self) -> anyhow::Result<()> {
        eprintln!("\nseconds of each step");
        for (name, time) in &self.times {
            eprintln!("{:7.1}  {name}", time.as_secs_f64());
        }
        self.tests.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        eprintln!("\nseconds of the slowest tests");
        for test in self.tests.iter().take(SLOWEST) {
            eprintln!("{:7.1}  {}", test.seconds, test.name);
        }
        for test in self.tests.iter().filter(|test| test.again && test.passed) {
            eprintln!("passed when run again: {}", test.name);
        }
        for failure in &self.failures {
            eprintln!("failed: {failure}");
        }
        println!("{} passed, {} failed", self.passed, self.failures.len());
        if self.failures.is_empty() { Ok(()) } else { anyhow::bail!("not all checks passed") }
    }
}
