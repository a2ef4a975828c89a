//! How soon the plan makes a useful model of a GPU that nobody has described, beside shapes drawn at random:
//! `cargo run --release -p diode-server --example plan_quality`.
//!
//! One simulated device measures for hours: what the plan names, or random shapes of the same operators, types and
//! layouts with the same share of configs, in the time that the server expects. Models of both are judged by problems
//! that neither has measured. Every training sees as many problems as every other, so few that all of them take
//! minutes on two cores.

mod measuring;
mod shapes;

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::time::Instant;

use anyhow::Context as _;
use diode_core::api::Ability;
use diode_core::hardware::find;
use diode_core::{DType, Layout, Op, Problem};
use diode_server::agents::plan::{Known, Order, Planner};
use diode_train::{FirstPicks, TrainOptions, TrainingSet, train};

use measuring::{Device, MOST_SECONDS};

/// Quality is looked at after so many hours of one agent.
const HOURS: [f64; 4] = [1.0, 2.0, 4.0, 8.0];

/// How many problems a training sees, the same ones several times among them.
const SEEN: usize = 120_000;

fn main() -> anyhow::Result<()> {
    let hardware = find("nvidia-h200").context("the catalogue has it")?.simulated()?;
    let ability = Ability {
        ops: Op::ALL.to_vec(),
        dtypes: vec![DType::BFloat16, DType::Float16, DType::Float32],
        layouts: Layout::ALL.to_vec(),
        unaligned: true,
        memory_bytes: 8 << 30,
        variants: None,
    };
    let device = Device::new(hardware.clone(), 1);
    let layers = device.held_out(shapes::layers()?)?;
    let anywhere = device.held_out(shapes::anywhere(2).take(200))?;
    let judged: HashSet<&Problem> = layers.iter().chain(anywhere.iter()).map(|one| &one.problem).collect();
    println!(
        "first picks' share of the best, on {} layers of transformers and {} problems anywhere",
        layers.problems(),
        anywhere.problems()
    );
    let known = Known::default();
    let order = Order::new(1);
    let plan = Planner::new(&hardware, &ability, MOST_SECONDS, &known, &order).map(|planned| planned.problem);
    let plan: Box<dyn Iterator<Item = Problem>> = Box::new(plan);
    for (name, problems) in [("plan", plan), ("random", Box::new(shapes::anywhere(1)))] {
        let mut problems = problems.filter(|problem| !judged.contains(problem));
        let mut measured = device.nothing();
        for hours in HOURS {
            device.measure_until(hours, &mut problems, &mut measured)?;
            let start = Instant::now();
            let (set, _) =
                TrainingSet::from_datasets(std::slice::from_ref(&measured.dataset), None)?.split_kept()?;
            let epochs = (SEEN / set.problems()).max(1);
            let options = TrainOptions { epochs: Some(epochs), ..TrainOptions::default() };
            let model = train(&set, &options, String::new(), &mut |_| ControlFlow::Continue(()))?;
            let share = |set| -> anyhow::Result<f64> {
                Ok(FirstPicks::of(&model, set)?.report().context("nothing is judged")?.triton.geomean)
            };
            println!(
                "{name:>6}, {hours} h: {:.1} % of layers, {:.1} % anywhere ({} problems, {} timings, trained {epochs} epochs in {:.0} s)",
                100.0 * share(&layers)?,
                100.0 * share(&anywhere)?,
                set.problems(),
                set.timings(),
                start.elapsed().as_secs_f64()
            );
        }
    }
    Ok(())
}
