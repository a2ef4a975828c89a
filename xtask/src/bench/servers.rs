//! Loads servers with uploads, pages and agents, on SQLite and on Postgres.

use crate::postgres::{Durability, Postgres};
use crate::shell::{self, cargo};

/// How many uploads of the same problems there are, how many timings a large database has, and how
/// many seconds each load on it takes.
struct Size {
    uploads: &'static str,
    timings: &'static str,
    seconds: &'static str,
}

const USUAL: Size = Size { uploads: "30", timings: "3000000", seconds: "10" };
const FULL: Size = Size { uploads: "300", timings: "100000000", seconds: "30" };

/// A fleet of agents: their number, the number of servers, and for how many minutes the agents work.
const ON_SQLITE: [&str; 3] = ["50", "1", "3"];
const ON_POSTGRES: [&str; 3] = ["500", "2", "3"];

pub(super) fn run(full: bool) -> anyhow::Result<()> {
    let size = if full { FULL } else { USUAL };
    // The benchmarks start the server from the folder of their own program.
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
