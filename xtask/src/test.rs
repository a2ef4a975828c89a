//! Runs all checks and tests.

use anyhow::bail;
use clap::Args;

use crate::postgres::{Durability, Postgres};
use crate::shell::{cargo, exists};
use crate::steps::{Count, Steps, count};
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
