//! Measures the codecs on a real file:
//! `cargo run -p diode-formats --example throughput -- FILE`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use diode_core::{Config, Dataset};
use diode_formats::stored::{Columns, decode_columns, decode_configs, encode_columns, encode_configs};
use diode_formats::{Format, content_digest, decode, encode};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("expected the path of a dataset")?;
    let bytes = std::fs::read(&path)?;
    let decoded = decode(&bytes)?;
    let timings: usize = decoded.datasets.iter().map(Dataset::timings).sum();
    println!("{}: {} bytes, {timings} timings", decoded.format, bytes.len());
    println!("content digest {}", content_digest(&decoded.datasets));
    report("digest", timings, || {
        black_box(content_digest(&decoded.datasets));
    });

    for format in [Format::Columnar, Format::PredecessorMsgpack, Format::PredecessorJson] {
        let encoded = match encode(format, &decoded.datasets) {
            Ok(encoded) => encoded,
            Err(error) => {
                println!("{format}: {error}");
                continue;
            }
        };
        println!("{format}: {} bytes", encoded.len());
        report("encode", timings, || {
            black_box(encode(format, &decoded.datasets).is_ok());
        });
        report("decode", timings, || {
            black_box(decode(&encoded).is_ok());
        });
    }
    packed(&decoded.datasets, timings)?;
    Ok(())
}

/// Encodes every solution as a server stores it.
fn packed(datasets: &[Dataset], timings: usize) -> Result<(), Box<dyn std::error::Error>> {
    let columns: Vec<Columns> = datasets
        .iter()
        .flat_map(|dataset| &dataset.solutions)
        .map(|solution| Columns {
            times: solution.times.clone(),
            minimum_ns: solution.minimum_ns.clone(),
            spread_ns: solution.spread_ns.clone(),
            repeats: solution.repeats.clone(),
            failures: Vec::new(),
        })
        .collect();
    let blobs: Vec<Vec<u8>> = columns.iter().map(encode_columns).collect();
    println!("packed columns: {} bytes in {} blobs", blobs.iter().map(Vec::len).sum::<usize>(), blobs.len());
    report("encode", timings, || columns.iter().for_each(|c| drop(black_box(encode_columns(c)))));
    report("decode", timings, || blobs.iter().for_each(|b| drop(black_box(decode_columns(b)))));
    for dataset in datasets {
        let configs: Vec<Config> = dataset.configs.iter().copied().collect();
        let list = encode_configs(&configs);
        println!("packed list of {} configs: {} bytes", decode_configs(&list)?.len(), list.len());
    }
    Ok(())
}

/// Repeats something for about a second and prints the best rate.
fn report(what: &str, timings: usize, mut run: impl FnMut()) {
    let begin = Instant::now();
    let mut best = Duration::MAX;
    while begin.elapsed() < Duration::from_secs(1) {
        let start = Instant::now();
        run();
        best = best.min(start.elapsed());
    }
    let rate = timings as f64 / best.as_secs_f64() / 1e6;
    println!("  {what}: {:.1} ms, {rate:.1} M timings/s", best.as_secs_f64() * 1e3);
}
