//! How soon the plan makes a useful model of a GPU that nobody has described, beside shapes drawn at random:
//! `cargo run --release -p diode-server --example plan_quality [SEEDS]`.
//!
//! One simulated device measures for hours, in the time that the server expects: what the plan names; random shapes of
//! the same operators, types and layouts with every config, as without a plan; or such shapes with as many configs as
//! the plan times. Models of all are judged by problems that none has measured. Every training sees as many problems as
//! every other, so few that all of them take minutes on two cores. Each seed draws another plan, other shapes and other
//! quirks of the device, since one training may differ from the next by a percent.

mod measuring;
mod shapes;

use std::collections::HashSet;
use std::ops::ControlFlow;

use anyhow::Context as _;
use diode_core::api::Ability;
use diode_core::hardware::{Hardware, find};
use diode_core::{DType, Layout, Op, Problem};
use diode_server::agents::plan::{KnownProblems, Order, Planner};
use diode_train::{FirstPicks, TrainOptions, TrainingSet, train};

use measuring::{Configs, Device, MOST_SECONDS};

/// Quality is looked at after so many hours of one agent.
const HOURS: [f64; 6] = [0.25, 0.5, 1.0, 2.0, 4.0, 8.0];

/// What is measured.
const ARMS: [&str; 3] = ["plan", "random, all configs", "random, as the plan"];

/// How many problems a training sees, the same ones several times among them.
const SEEN: usize = 24_000;

/// The share of the best that first picks reach: on the layers of transformers, and anywhere.
type Quality = [f64; 2];

fn main() -> anyhow::Result<()> {
    let seeds = std::env::args().nth(1).map_or(Ok(3), |text| text.parse::<u64>()).context("SEEDS")?;
    let hardware = find("nvidia-h200").context("the catalogue has it")?.simulated()?;
    let runs = (1..=seeds).map(|seed| one_run(&hardware, seed)).collect::<anyhow::Result<Vec<_>>>()?;
    println!("first picks' share of the best in percent: mean of {seeds} (least to most)");
    for (set, name) in ["layers of transformers", "anywhere"].into_iter().enumerate() {
        println!("{name}:");
        println!("{:>6} {:>26} {:>26} {:>26}", "hours", ARMS[0], ARMS[1], ARMS[2]);
        for (place, hours) in HOURS.into_iter().enumerate() {
            let cell = |arm: usize| summary(runs.iter().map(|run| run[arm][place][set]));
            println!("{hours:>6} {:>26} {:>26} {:>26}", cell(0), cell(1), cell(2));
        }
    }
    Ok(())
}

fn summary(shares: impl Iterator<Item = f64>) -> String {
    let shares: Vec<f64> = shares.map(|share| 100.0 * share).collect();
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    let (least, most) =
        shares.iter().fold((f64::MAX, f64::MIN), |(low, high), s| (low.min(*s), high.max(*s)));
    format!("{mean:.2} ({least:.1} to {most:.1})")
}

/// The quality after each of [`HOURS`], of each of [`ARMS`].
fn one_run(hardware: &Hardware, seed: u64) -> anyhow::Result<[Vec<Quality>; 3]> {
    let ability = Ability {
        ops: Op::ALL.to_vec(),
        dtypes: vec![DType::BFloat16, DType::Float16, DType::Float32],
        layouts: Layout::ALL.to_vec(),
        unaligned: true,
        memory_bytes: 8 << 30,
        variants: None,
    };
    let device = Device::new(hardware.clone(), seed);
    let sets =
        [device.held_out(shapes::layers()?)?, device.held_out(shapes::anywhere(1000 + seed).take(200))?];
    let judged: HashSet<&Problem> = sets.iter().flat_map(TrainingSet::iter).map(|one| &one.problem).collect();
    let (known, order) = (KnownProblems::default(), Order::new(seed));
    let plan = Planner::new(hardware, &ability, MOST_SECONDS, &known, &order).map(|planned| planned.problem);
    let arms: [(Configs, Box<dyn Iterator<Item = Problem>>); 3] = [
        (Configs::OfThePlan, Box::new(plan)),
        (Configs::All, Box::new(shapes::anywhere(seed))),
        (Configs::OfThePlan, Box::new(shapes::anywhere(seed))),
    ];
    let mut qualities = [Vec::new(), Vec::new(), Vec::new()];
    for ((name, (configs, problems)), qualities) in ARMS.into_iter().zip(arms).zip(&mut qualities) {
        let mut problems = problems.filter(|problem| !judged.contains(problem));
        let mut measured = device.nothing();
        for hours in HOURS {
            device.measure_until(hours, configs, &mut problems, &mut measured)?;
            let (set, _) =
                TrainingSet::from_datasets(std::slice::from_ref(&measured.dataset), None)?.split_kept()?;
            let quality = quality(&set, seed, &sets)?;
            println!(
                "seed {seed}, {name:>19}, {hours} h: {:.1} % of layers, {:.1} % anywhere ({} problems, {} timings)",
                100.0 * quality[0],
                100.0 * quality[1],
                set.problems(),
                set.timings(),
            );
            qualities.push(quality);
        }
    }
    Ok(qualities)
}

/// What a model that is trained on a set reaches on the sets that judge it.
fn quality(set: &TrainingSet, seed: u64, judges: &[TrainingSet; 2]) -> anyhow::Result<Quality> {
    let epochs = (SEEN / set.problems()).max(1);
    let options = TrainOptions { epochs: Some(epochs), seed, ..TrainOptions::default() };
    let model = train(set, &options, String::new(), &mut |_| ControlFlow::Continue(()))?;
    let mut quality = [0.0; 2];
    for (share, judge) in quality.iter_mut().zip(judges) {
        *share = FirstPicks::of(&model, judge)?.report().context("nothing is judged")?.triton.geomean;
    }
    Ok(quality)
}
