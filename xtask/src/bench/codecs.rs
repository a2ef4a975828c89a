//! Compares our codecs with others in the same run, because machines differ.

use std::collections::HashMap;
use std::path::Path;

use anyhow::Context;

use crate::python::environment;
use crate::shell::{cargo, command, output, root, target_folder};

/// A real dataset: 320,606 timings from an H200.
const DATASET: &str = "trained_models/matmul/nvidia-h200/data/h200-mm-bf16.msgpack.zst";

pub(super) fn run() -> anyhow::Result<()> {
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
