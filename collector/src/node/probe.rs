//! A short micro-benchmark of the clock and of how fast memory can be read.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

/// The clock of a busy core. It times a chain in which an exclusive or and an addition alternate.
/// Each takes one cycle on every CPU and needs the result before it. The clock is rounded up to 100
/// MHz. Interruptions can only make a run slower, so the best of many short runs counts.
pub(super) fn clock_mhz() -> u32 {
    const STEPS: u32 = 200_000;
    const CYCLES_PER_STEP: f64 = 2.0;
    const RUNS: usize = 60;
    let best = (0..RUNS)
        .map(|_| {
            let (mut x, flip, add) = (black_box(1_u64), black_box(0x5555_5555), black_box(12_345));
            let start = Instant::now();
            for _ in 0..STEPS {
                x = (x ^ flip).wrapping_add(add);
            }
            black_box(x);
            start.elapsed()
        })
        .min()
        .unwrap_or(Duration::MAX);
    let mhz = f64::from(STEPS) * CYCLES_PER_STEP / best.as_secs_f64() / 1e6;
    (mhz / 100.0).ceil() as u32 * 100
}

/// How many bytes to read so that they cannot all come from a cache of this size.
pub(super) fn beyond(cache_bytes: u64) -> u64 {
    /// The most bytes to read. They exceed any cache and are quickly filled.
    const MOST: u64 = 256 << 20;
    (cache_bytes * 4).clamp(32 << 20, MOST)
}

/// The rate in GB/s at which `threads` threads together read `bytes` again and again. It is rounded
/// up to a preferred number.
pub(super) fn read_gbps(bytes: u64, threads: u32) -> f64 {
    const TIME: Duration = Duration::from_millis(120);
    const MIN_PASSES: usize = 3;
    let words = usize::try_from(bytes / 8).unwrap_or(usize::MAX).max(1 << 12);
    let data = vec![1_u64; words];
    let part = words.div_ceil(threads.max(1) as usize);
    let began = Instant::now();
    let mut best = Duration::MAX;
    let mut passes = 0;
    // The first pass also brings the data into the caches, so it does not count.
    while passes <= MIN_PASSES || began.elapsed() < TIME {
        let start = Instant::now();
        thread::scope(|scope| {
            for part in data.chunks(part) {
                scope.spawn(move || black_box(sum(part)));
            }
        });
        if passes > 0 {
            best = best.min(start.elapsed());
        }
        passes += 1;
    }
    round_up((words * 8) as f64 / best.as_secs_f64() / 1e9)
}

/// Several sums side by side, so that reads never wait for additions.
fn sum(words: &[u64]) -> u64 {
    let mut sums = [0_u64; 16];
    let chunks = words.chunks_exact(16);
    let rest: u64 = chunks.remainder().iter().sum();
    for chunk in chunks {
        for (sum, word) in sums.iter_mut().zip(chunk) {
            *sum = sum.wrapping_add(*word);
        }
    }
    sums.iter().sum::<u64>() + rest
}

/// The next larger R5 preferred number (10, 16, 25, 40, 63, 100, …).
fn round_up(value: f64) -> f64 {
    const STEPS: [f64; 6] = [1.0, 1.6, 2.5, 4.0, 6.3, 10.0];
    let decade = 10_f64.powf(value.log10().floor());
    let rounded = STEPS.into_iter().map(|step| step * decade).find(|step| *step >= value);
    rounded.unwrap_or(10.0 * decade)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preferred_numbers() {
        for (value, rounded) in [(1.0, 1.0), (10.1, 16.0), (17.0, 25.0), (39.0, 40.0), (64.0, 100.0)] {
            assert!((round_up(value) - rounded).abs() < 1e-9, "{value} became {}", round_up(value));
        }
    }

    #[test]
    fn measurements_are_plausible() {
        let mhz = clock_mhz();
        assert!((300..=8000).contains(&mhz), "{mhz} MHz");
        let gbps = read_gbps(1 << 20, 2);
        assert!((0.1..1e5).contains(&gbps), "{gbps} GB/s");
    }
}
