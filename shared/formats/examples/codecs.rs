//! Measures the codecs for `cargo xtask bench`, and prints `name value` lines:
//! `cargo run --release -p diode-formats --example codecs -- DATASET UNPACKED`.
//!
//! Writes the dataset to UNPACKED as torch-diode's MessagePack, and times our decoder on it. The
//! benchmark then times another decoder on the same bytes.

use std::error::Error;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use diode_core::Dataset;
use diode_formats::{Format, decode, encode, read_file, write_atomically};

/// The least number of runs. The best run is reported, as for Python's decoder, because other programs
/// share the machine.
const RUNS: usize = 5;
/// Runs go on for at least this time.
const PERIOD: Duration = Duration::from_secs(2);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(dataset), Some(unpacked)) = (arguments.next(), arguments.next()) else {
        return Err("expected a dataset and a path to write".into());
    };
    write_atomically(&unpacked, &encode(Format::PredecessorMsgpack, &read_file(&dataset)?.datasets)?)?;

    // This comes first. Later the process would hold freed memory, which decoding could use without
    // growing.
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

/// The growth of the process's resident memory at its peak while `run` works, in bytes. It includes what
/// `run` returns. `None` where the system does not tell.
fn growth<T, E: Error + 'static>(run: impl FnOnce() -> Result<T, E>) -> Result<Option<u64>, Box<dyn Error>> {
    // Writing 5 makes Linux forget the peak so far.
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
