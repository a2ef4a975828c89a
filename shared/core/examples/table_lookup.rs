//! Measures exact lookups in a table of 100,000 problems:
//! `cargo run --release -p diode-core --example table_lookup`.

use std::hint::black_box;
use std::time::Instant;

use diode_core::hardware::find;
use diode_core::space::{Space, SpaceName};
use diode_core::table::TableConfig;
use diode_core::{DType, Layout, Method, Op, Problem, ProblemFields, Table};

const PROBLEMS: usize = 100_000;
/// Lookups that are timed together, so that the clock's own 20 to 30 ns do not count.
const BATCH: usize = 64;
const ROUNDS: usize = 31;
const CONFIGS_PER_PROBLEM: usize = 5;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let hardware = find("nvidia-h200").ok_or("the catalogue has no H200")?;
    let mut table = Table::new(hardware.clone(), Method::Unspecified);
    let mut numbers = Numbers(1);
    let mut asked = Vec::with_capacity(PROBLEMS);
    while table.len() < PROBLEMS {
        let problem = problem(&mut numbers)?;
        let configs = Space::Named(SpaceName::Default).configs(&hardware, &problem)?;
        let configs =
            configs.iter().take(CONFIGS_PER_PROBLEM).map(|&config| TableConfig { config, time: None });
        if table.insert(problem.clone(), configs.collect()).is_ok() {
            asked.push(problem);
        }
    }
    // A random order, so that one lookup does not load the entry of the next into a cache.
    for last in (1..asked.len()).rev() {
        asked.swap(last, numbers.below(last as u64 + 1) as usize);
    }
    let misses: Vec<Problem> = asked.iter().map(unlike_any).collect::<Result<_, _>>()?;
    report("hits", &table, &asked, |configs| {
        black_box(configs);
    });
    report("hits, and the first config read", &table, &asked, |configs| {
        black_box(configs[0]);
    });
    report("misses", &table, &misses, |configs| {
        black_box(configs);
    });
    let begin = Instant::now();
    black_box(table.nearest(&misses[0], 1));
    println!("nearest: {:.1} ms", begin.elapsed().as_secs_f64() * 1e3);
    Ok(())
}

/// Prints the medians of several rounds, because other programs share the machine's caches.
///
/// A round times every batch once, so that no table entry is still in a cache from its last lookup.
/// The problems of a batch are in the cache, as they are for a caller that has just made them.
fn report(what: &str, table: &Table, asked: &[Problem], read: impl Fn(&[TableConfig])) {
    let mut rounds: Vec<(f64, f64)> = (0..ROUNDS).map(|_| round(table, asked, &read)).collect();
    rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ((quiet, slowest), (busy, _)) = (rounds[0], rounds[ROUNDS - 1]);
    println!(
        "{what}: median {quiet:.0} ns (99 % within {slowest:.0} ns) in the quietest of {ROUNDS} rounds, {busy:.0} ns \
         in the busiest; {} problems, batches of {BATCH}",
        table.len()
    );
}

/// The median and the 99th percentile over the batches, in nanoseconds per lookup.
fn round(table: &Table, asked: &[Problem], read: impl Fn(&[TableConfig])) -> (f64, f64) {
    let mut nanos: Vec<f64> = asked
        .chunks_exact(BATCH)
        .map(|batch| {
            let at_hand = black_box(batch.to_vec());
            let begin = Instant::now();
            for problem in &at_hand {
                black_box(table.lookup(black_box(problem)).map(&read));
            }
            begin.elapsed().as_secs_f64() * 1e9 / BATCH as f64
        })
        .collect();
    nanos.sort_by(f64::total_cmp);
    (nanos[nanos.len() / 2], nanos[nanos.len() * 99 / 100])
}

fn problem(numbers: &mut Numbers) -> Result<Problem, diode_core::Invalid> {
    let mut size = || 8 * (1 + numbers.below(2048));
    let (m, n, k) = (size(), size(), size());
    let plain = ProblemFields::plain(Op::Mm, 1, m, n, k, DType::BFloat16);
    Problem::new(ProblemFields { b_layout: Layout::Column, ..plain })
}

fn unlike_any(known: &Problem) -> Result<Problem, diode_core::Invalid> {
    Problem::new(ProblemFields { m: known.m + 1, ..known.clone().into_fields() })
}

/// The random number generator SplitMix64.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}
