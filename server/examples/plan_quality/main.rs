//! How soon the plan makes a useful model of a GPU that nobody has described, compared with shapes drawn at random:
//! `cargo run --release -p diode-server --example plan_quality`.
//!
//! One simulated device measures for hours; each problem takes as long as the server expects. A model is trained on
//! the timings. The model is judged by problems that nobody has measured. The goal: the plan needs half the time of
//! random shapes for an equally good model. Each seed draws another plan, other shapes and other first weights.
//! Several seeds are needed, because two trainings may differ by half a percent.

mod arm;
mod judge;
mod measuring;
mod shapes;
mod table;
mod training;

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::Context as _;
use clap::Parser;
use diode_core::hardware::find;

use arm::Arm;
use judge::Judge;
use measuring::Device;
use training::Training;

#[derive(Parser)]
struct Arguments {
    /// After how many hours of measuring by one agent models are trained. The plan measures for half of the longest
    /// time.
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8")]
    hours: Vec<f64>,
    /// How many plans, and how many sets of random shapes.
    #[arg(long, default_value_t = 3)]
    seeds: u64,
    #[arg(long, value_delimiter = ',', default_value = "plan,random")]
    arms: Vec<Arm>,
    /// How many problems each training sees. A problem counts each time that it is seen. So few that everything takes
    /// minutes; 0 for as many epochs as on a server, which take hours.
    #[arg(long, default_value_t = 24_000)]
    seen: usize,
    #[arg(long, default_value_t = std::thread::available_parallelism().map_or(1, usize::from))]
    threads: usize,
}

fn main() -> anyhow::Result<()> {
    let Arguments { hours, seeds, arms, seen, threads } = Arguments::parse();
    let seen = (seen > 0).then_some(seen);
    let longest = hours.iter().copied().fold(0.0, f64::max);
    let hardware = find("nvidia-h200").context("the catalogue has it")?.simulated()?;
    let devices: Vec<Device> = (1..=seeds).map(|seed| Device::new(hardware.clone(), seed)).collect();

    let judges = side_by_side(threads, devices.iter().collect(), Judge::both)?;
    for (device, [layers, anywhere]) in devices.iter().zip(&judges) {
        println!("seed {}: {layers}; {anywhere}", device.seed);
    }

    let all =
        arms.iter().flat_map(|arm| devices.iter().zip(&judges).map(move |(device, by)| (*arm, device, by)));
    let measured = side_by_side(threads, all.collect(), |(arm, device, by)| {
        let hours = hours.iter().copied().filter(|hours| arm != Arm::Plan || *hours <= longest / 2.0);
        let sets = arm.measured(device, hours, by)?;
        Ok(sets.into_iter().map(move |(hours, set)| Training {
            arm,
            seed: device.seed,
            hours,
            set,
            seen,
            by,
        }))
    })?;
    let mut trainings: Vec<Training<'_>> = measured.into_iter().flatten().collect();
    // The longest training goes first. If it went last, it would run alone while the other threads have no work.
    trainings.sort_by_key(|training| std::cmp::Reverse(training.set.problems()));
    let results = side_by_side(threads, trainings, |training| {
        let result = training.run()?;
        println!("{result}");
        Ok(result)
    })?;
    table::print(&arms, &hours, &results);
    Ok(())
}

/// Does the same work for each input, on `threads` threads. The results have the order of the inputs.
fn side_by_side<I: Send, O: Send>(
    threads: usize,
    inputs: Vec<I>,
    work: impl Fn(I) -> anyhow::Result<O> + Sync,
) -> anyhow::Result<Vec<O>> {
    let queue: Mutex<VecDeque<(usize, I)>> = Mutex::new(inputs.into_iter().enumerate().collect());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let done = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((place, input)) = next() {
                    let output = work(input);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((place, output));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, output)| output).collect()
}
