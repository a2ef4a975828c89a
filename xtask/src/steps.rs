//! A run of named checks that goes on after a failure and ends with a count.

use std::time::Instant;

/// Counts what passed and failed, and remembers the names of failures.
#[derive(Default)]
pub(crate) struct Steps {
    passed: usize,
    failures: Vec<String>,
}

impl Steps {
    /// Runs one check that passes or fails as a whole.
    pub(crate) fn check(&mut self, name: &str, check: impl FnOnce() -> anyhow::Result<()>) {
        self.count(name, || check().map(|()| Tally { passed: 1, failed: 0 }));
    }

    /// Runs a check that counts tests itself.
    pub(crate) fn count(&mut self, name: &str, check: impl FnOnce() -> anyhow::Result<Tally>) {
        eprintln!("\n=== {name}");
        let started = Instant::now();
        let outcome = check();
        let seconds = started.elapsed().as_secs();
        match outcome {
            Ok(tally) => {
                self.passed += tally.passed;
                self.failures.extend((0..tally.failed).map(|_| format!("a test of {name}")));
                eprintln!("=== {name}: {} passed, {} failed in {seconds} s", tally.passed, tally.failed);
            }
            Err(error) => {
                eprintln!("=== {name} FAILED in {seconds} s: {error:#}");
                self.failures.push(name.to_owned());
            }
        }
    }

    /// Prints the closing line; an error if anything failed.
    pub(crate) fn finish(self) -> anyhow::Result<()> {
        for failure in &self.failures {
            eprintln!("failed: {failure}");
        }
        println!("{} passed, {} failed", self.passed, self.failures.len());
        if self.failures.is_empty() { Ok(()) } else { anyhow::bail!("not all checks passed") }
    }
}

/// How many tests passed and failed.
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
}
