//! Benchmarks. Each figure is printed beside its goal.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Context;
use clap::Args;

use crate::setup::{Durability, Postgres};
use crate::shell::{self, cargo, command, environment, output, root, target_folder};

#[derive(Args)]
pub(crate) struct Options {
    /// Fill databases with 100 million timings: takes an hour
    #[arg(long)]
    full: bool,
    /// Only uploads, pages and agents
    #[arg(long)]
    servers: bool,
    /// Only pages of a server that runs, such as a copy of yours; nothing is written
    #[arg(long, value_name = "URL", conflicts_with_all = ["full", "servers"])]
    against: Option<String>,
}

/// Benchmarks that print their own lines, as pairs of package and example.
const EXAMPLES: &[(&str, &str)] = &[
    ("diode-core", "table_lookup"),
    ("diode-model", "rank_space"),
    ("diode-server", "plan_day"),
    ("diode-server", "plan_quality"),
];

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    if let Some(url) = &options.against {
        return example("load", &["against", url, USUAL.seconds]);
    }
    if !options.servers {
        codecs()?;
        for (package, example) in EXAMPLES {
            println!("\n{example}");
            shell::run(cargo().args(["run", "--quiet", "--release", "-p", package, "--example", example]))?;
        }
    }
    servers(options.full)
}

/// A real dataset: 320,606 timings from an H200.
const DATASET: &str = "trained_models/matmul/nvidia-h200/data/h200-mm-bf16.msgpack.zst";

/// Compares our codecs with others in the same run, because machines differ.
fn codecs() -> anyhow::Result<()> {
    let unpacked = target_folder().join("bench.msgpack");
    let lines = output(
        cargo()
            .args(["run", "--quiet", "--release", "-p", "diode-formats", "--no-default-features"])
            .args(["--example", "codecs", "--"])
            .arg(root().join(DATASET))
            .arg(&unpacked),
    )?;
    let ours = Numbers::parse(&lines)?;
    let (bytes, timings) = (ours.get("msgpack_bytes")?, ours.get("timings")?);
    let seconds = ours.get("decode_seconds")?;
    println!("torch-diode's MessagePack, {timings} timings in {bytes} bytes, decoded and validated");
    println!("  diode: {:.1} ms, {:.1} M timings/s", 1e3 * seconds, timings / seconds / 1e6);
    match python(&unpacked) {
        Ok(python) => println!(
            "  Python's msgpack.unpackb on the same bytes: {:.1} ms; diode is {:.1} times as fast (goal: 4)",
            1e3 * python,
            python / seconds
        ),
        Err(missing) => println!("  no ratio to Python's msgpack: {missing:#}"),
    }
    match ours.get("decode_peak_bytes") {
        Ok(peak) => {
            println!("  peak memory, the result included: {:.1} MB (goal: 64 over the result)", peak / 1e6)
        }
        Err(_) => println!("  peak memory: this system does not tell"),
    }
    println!("Columnar, the same timings");
    println!("  {} bytes (goal: 500000)", ours.get("columnar_bytes")?);
    println!(
        "  write {:.1} M timings/s, read {:.1} M timings/s on one core (goal: 20)",
        ours.get("columnar_write_rate")? / 1e6,
        ours.get("columnar_read_rate")? / 1e6
    );
    Ok(())
}

/// The numbers from `name value` lines.
struct Numbers<'a>(HashMap<&'a str, f64>);

impl<'a> Numbers<'a> {
    fn parse(lines: &'a str) -> anyhow::Result<Self> {
        let number = |line: &'a str| {
            let (name, value) = line.split_once(' ')?;
            Some((name, value.parse().ok()?))
        };
        let numbers =
            lines.lines().map(|line| number(line).with_context(|| format!("got the line {line:?}")));
        Ok(Self(numbers.collect::<Result<_, _>>()?))
    }

    fn get(&self, name: &str) -> anyhow::Result<f64> {
        self.0.get(name).copied().with_context(|| format!("the benchmark did not print `{name}`"))
    }
}

/// Prints the best of five runs, because our benchmark reports its best run, too.
const PYTHON: &str = "
import sys, time, msgpack
data = open(sys.argv[1], 'rb').read()
best = float('inf')
for _ in range(5):
    start = time.perf_counter()
    tree = msgpack.unpackb(data)
    best = min(best, time.perf_counter() - start)
    del tree
print(best)
";

/// The seconds that Python's msgpack takes. Its environment is made on first use.
fn python(unpacked: &Path) -> anyhow::Result<f64> {
    let seconds = output(
        command(environment("bench-python", &["msgpack"], "msgpack")?).args(["-c", PYTHON]).arg(unpacked),
    )?;
    seconds.trim().parse().with_context(|| format!("got {seconds:?}, expected seconds"))
}

/// How many uploads of the same problems there are, how many timings a large database has, and how
/// many seconds each load on it takes.
struct Size {
    uploads: &'static str,
    timings: &'static str,
    seconds: &'static str,
}

const USUAL: Size = Size { uploads: "30", timings: "3000000", seconds: "10" };
const FULL: Size = Size { uploads: "300", timings: "100000000", seconds: "30" };

/// For how many seconds clients try to starve others.
const STARVED: &str = "60";

/// A fleet of agents: their number, the number of servers, and for how many minutes the agents work.
const ON_SQLITE: [&str; 3] = ["50", "1", "3"];
const ON_POSTGRES: [&str; 3] = ["500", "2", "3"];

/// Loads servers with uploads, pages and agents, on SQLite and on Postgres.
fn servers(full: bool) -> anyhow::Result<()> {
    let size = if full { FULL } else { USUAL };
    // The benchmarks start the server from the folder of their own program.
    build(&["-p", "diode-server", "--bin", "diode-server"])?;
    let postgres = Postgres::start(Durability::Real)?;
    let loads = [
        &["ingest", size.uploads][..],
        &["pages", size.timings, size.seconds],
        &["shipped", size.seconds],
        &["starve", STARVED],
    ];
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
