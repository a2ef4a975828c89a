//! What `cargo xtask bench` asks of the codecs, as `name value` lines:
//! `cargo run --release -p diode-formats --example codecs -- DATASET UNPACKED`.
//!
//! Writes the dataset as torch-diode's MessagePack to UNPACKED, where another
//! decoder can be timed on the same bytes, and times ours on it.

use std::error::Error;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use diode_core::Dataset;
use diode_formats::{Format, decode, encode, read_file, write_atomically};

/// The best run is reported, as for Python, since other programs share the machine: of at least so many …
const RUNS: usize = 5;
/// … and of as many as begin within this.
const PERIOD: Duration = Duration::from_secs(2);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(dataset), Some(unpacked)) = (arguments.next(), arguments.next()) else {
        return Err("expected a dataset and a path to write".into());
    };
    write_atomically(&unpacked, &encode(Format::PredecessorMsgpack, &read_file(&dataset)?.datasets)?)?;

    // First, while this process has held nothing yet that could be used again.
    if let Some(growth) = growth(|| read_file(&unpacked))? {
        println!("decode_peak_bytes {growth}");
    }
    let bytes = std::fs::read(&unpacked)?;
    let datasets = decode(&bytes)?.datasets;
    let timings: usize = datasets.iter().map(Dataset::timings).sum();
    println!("timings {timings}");
    println!("msgpack_bytes {}", bytes.len());
    println!("decode_seconds {}", best(|| drop(black_box(decode(&bytes)))));

    let columnar = encode(Format::Columnar, &datasets)?;
    println!("columnar_bytes {}", columnar.len());
    let rate = |seconds: f64| timings as f64 / seconds;
    println!("columnar_write_rate {}", rate(best(|| drop(black_box(encode(Format::Columnar, &datasets))))));
    println!("columnar_read_rate {}", rate(best(|| drop(black_box(decode(&columnar))))));
    Ok(())
}

fn best(mut run: impl FnMut()) -> f64 {
    let mut best = Duration::MAX;
    let begin = Instant::now();
    let mut runs = 0;
    while runs < RUNS || begin.elapsed() < PERIOD {
        runs += 1;
        let start = Instant::now();
        run();
        best = best.min(start.elapsed());
    }
    best.as_secs_f64()
}

/// By how many bytes the process's resident memory grew at its peak while
/// something ran, what it returns included. `None` where the system does not tell.
fn growth<T, E: Error + 'static>(run: impl FnOnce() -> Result<T, E>) -> Result<Option<u64>, Box<dyn Error>> {
    // Linux forgets the peak so far when it is told 5.
    #[expect(clippy::disallowed_methods, reason = "a file of the system's, not one to keep")]
    let can_reset = std::fs::write("/proc/self/clear_refs", "5").is_ok();
    let before = resident("VmRSS:");
    let result = run()?;
    let peak = resident("VmHWM:");
    drop(black_box(result));
    Ok(before.zip(peak).filter(|_| can_reset).map(|(before, peak)| peak.saturating_sub(before)))
}

fn resident(name: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kilobytes << 10)
}
