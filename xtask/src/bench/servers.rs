//! Servers under load, on SQLite and on Postgres: uploads, pages, agents.

use crate::postgres::{Durability, Postgres};
use crate::shell::{self, cargo};

/// Uploads of the same problems; timings of a large database, and seconds of each load on it.
struct Size {
    uploads: &'static str,
    timings: &'static str,
    seconds: &'static str,
}

const USUAL: Size = Size { uploads: "30", timings: "3000000", seconds: "10" };
const FULL: Size = Size { uploads: "300", timings: "100000000", seconds: "30" };

/// Fleets of agents: how many, on how many servers, for how many minutes.
const ON_SQLITE: [&str; 3] = ["50", "1", "3"];
const ON_POSTGRES: [&str; 3] = ["500", "2", "3"];

pub(super) fn run(full: bool) -> anyhow::Result<()> {
    let size = if full { FULL } else { USUAL };
    // The servers stand beside the programs that start them.
    build(&["-p", "diode-server", "--bin", "diode-server"])?;
    let postgres = Postgres::start(Durability::Real)?;
    let loads = [&["ingest", size.uploads][..], &["pages", size.timings, size.seconds]];
    for load in loads {
        example("load", load)?;
        let url = postgres.database(load[0])?;
        example("load", &[load, &[&url]].concat())?;
    }
    example("fleet", &ON_SQLITE)?;
    let url = postgres.database("fleet")?;
    example("fleet", &[&ON_POSTGRES[..], &[&url]].concat())
}

fn build(what: &[&str]) -> anyhow::Result<()> {
    shell::run(cargo().args(["build", "--quiet", "--release"]).args(what))
}

fn example(name: &str, arguments: &[&str]) -> anyhow::Result<()> {
    println!("\n{name} {}", arguments.join(" "));
    let run = ["run", "--quiet", "--release", "-p", "diode-tests", "--example", name, "--"];
    shell::run(cargo().args(run).args(arguments))
}
