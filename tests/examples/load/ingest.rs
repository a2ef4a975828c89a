//! Measures uploads: the timings per second, the memory that they take, and the cost of uploads whose problems
//! are known.

use std::time::Duration;

use anyhow::ensure;
use diode_core::Dataset;
use diode_formats::{Format, encode};

use crate::collections::Collections;
use crate::filling::{SENDERS, send};
use crate::machine::load;
use crate::site::Site;

/// The number of uploads over which the rate is measured.
const TIMED: usize = 20;

/// The number of uploads that arrive at the same time when memory is measured.
const AT_ONCE: usize = 16;

/// The number of collections that fit into the largest allowed upload.
const LARGEST: usize = 13;

/// The median of this many last uploads is compared with the first upload: one upload alone says little.
const LAST: usize = 5;

pub(crate) fn run(site: &mut Site, collections: usize) -> anyhow::Result<()> {
    let mut making = Collections::new()?;
    let problems = making.problems();
    println!("{}: ingest of collections of {problems} problems", site.database());

    let before = load();
    let files: Vec<Dataset> = (0..TIMED).map(|_| making.others(problems)).collect::<Result<_, _>>()?;
    let sent = rate(site, SENDERS, Format::Columnar, files)?;
    println!("columnar, other problems each time, {TIMED} uploads, {SENDERS} at once: {sent} (goal: 2 M)");
    println!("  boards show all of it {:.1} s later; {}", site.settle()?.as_secs_f64(), between(&before));

    let before = load();
    let files: Vec<Dataset> = (0..TIMED).map(|_| making.others(problems)).collect::<Result<_, _>>()?;
    let sent = rate(site, SENDERS, Format::PredecessorMsgpack, files)?;
    println!("torch-diode's MessagePack, {TIMED} uploads, {SENDERS} at once: {sent} (goal: 0.3 M)");
    println!("  {}; memory so far {:.0} MB", between(&before), site.peak_memory()?);
    site.settle()?;

    again(site, &mut making, collections)?;

    let before = load();
    let files: Vec<Dataset> = (0..AT_ONCE).map(|_| making.others(problems)).collect::<Result<_, _>>()?;
    rate(site, AT_ONCE, Format::PredecessorMsgpack, files)?;
    println!("memory after {AT_ONCE} files of MessagePack at once: {:.0} MB", site.peak_memory()?);
    let files: Vec<Dataset> = (0..4).map(|_| making.others(LARGEST * problems)).collect::<Result<_, _>>()?;
    let sent = rate(site, 4, Format::Columnar, files)?;
    println!("4 of the largest uploads at once, columnar: {sent}");
    let peak = site.peak_memory()?;
    println!("the most memory that the server took: {peak:.0} MB (goal: 300); {}", between(&before));
    Ok(())
}

/// Many uploads of the same problems, one after the other.
fn again(site: &Site, making: &mut Collections, collections: usize) -> anyhow::Result<()> {
    ensure!(collections > 0, "expected at least one collection");
    let before = load();
    let (mut times, mut timings) = (Vec::with_capacity(collections), 0);
    for _ in 0..collections {
        let dataset = making.again()?;
        timings = dataset.timings();
        times.push(site.upload(&encode(Format::Columnar, &[dataset])?)?.as_secs_f64());
    }
    let shown: Vec<String> = [1, 2, 3, 10, 30, 100, 200, 300]
        .into_iter()
        .filter_map(|number| Some(format!("{number}: {:.3} s", times.get(number - 1)?)))
        .collect();
    println!("the same problems, one upload after the other: {}", shown.join(", "));
    let mut last: Vec<f64> = times.iter().rev().take(LAST).copied().collect();
    last.sort_unstable_by(f64::total_cmp);
    let (all, first, last): (f64, _, _) = (times.iter().sum(), times[0], last[last.len() / 2]);
    println!(
        "  {:.2} M timings/s; the last (median of {LAST}) takes {:.2} times as long as the first (goal: 1.5 for the 300th)",
        (timings * collections) as f64 / all / 1e6,
        last / first
    );
    let settled = site.settle()?;
    println!("  boards show all of it {:.1} s later; {}", settled.as_secs_f64(), between(&before));
    Ok(())
}

/// How fast a server takes some collections. They are encoded beforehand, so that only the server's work
/// counts.
fn rate(site: &Site, senders: usize, format: Format, datasets: Vec<Dataset>) -> anyhow::Result<String> {
    let timings: usize = datasets.iter().map(Dataset::timings).sum();
    let files: Vec<Vec<u8>> =
        datasets.into_iter().map(|dataset| encode(format, &[dataset])).collect::<Result<_, _>>()?;
    let bytes: usize = files.iter().map(Vec::len).sum();
    let took: Duration = send(site, senders, files.into_iter().map(Ok))?;
    let seconds = took.as_secs_f64();
    Ok(format!(
        "{:.2} M timings/s, {seconds:.1} s, {:.2} bytes each",
        timings as f64 / seconds / 1e6,
        bytes as f64 / timings as f64
    ))
}

fn between(before: &str) -> String {
    format!("load average {before} before, {} after", load())
}
