use std::collections::HashSet;
use std::fmt;

use diode_api::{Ability, Breadth};
use diode_core::{DType, Layout, Op, Problem};
use diode_server::agents::plan::{KnownProblems, Order, Planner, breadth_of, expected_seconds};
use diode_train::TrainingSet;

use crate::judge::Judge;
use crate::measuring::{Device, Task};
use crate::shapes;

/// The length of a lease in seconds. No problem may take longer.
pub(crate) const MOST_SECONDS: f64 = 120.0;

/// The most memory that the operands of a problem may take.
pub(crate) const MOST_BYTES: u64 = 8 << 30;

/// What an arm of the experiment measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Arm {
    /// The problems that the plan draws.
    Plan,
    /// Random shapes with the plan's operators, types and layouts. Every config is timed, or a sample if a lease is too
    /// short for all.
    Random,
    /// The same random shapes, each with as many configs as the plan would time on it.
    Sampled,
}

impl Arm {
    /// The timings that the device has after each number of hours. The problems of the judges are left out, so that no
    /// model learns them.
    pub(crate) fn measured(
        self,
        device: &Device,
        hours: impl Iterator<Item = f64>,
        judges: &[Judge; 2],
    ) -> anyhow::Result<Vec<(f64, TrainingSet)>> {
        let judged: HashSet<&Problem> = judges.iter().flat_map(Judge::problems).collect();
        let (known, order) = (KnownProblems::default(), Order::new(device.seed));
        let ability = Ability {
            ops: Op::PLAIN.to_vec(),
            dtypes: vec![DType::BFloat16, DType::Float16, DType::Float32],
            layouts: Layout::ALL.to_vec(),
            unaligned: true,
            memory_bytes: MOST_BYTES,
            variants: None,
        };
        let planned = Planner::new(&device.hardware, &ability, MOST_SECONDS, &known, &order).map(|planned| {
            Task { problem: planned.problem, breadth: planned.breadth, seconds: planned.seconds }
        });
        let random = shapes::anywhere(device.seed).filter_map(|problem| {
            let breadths = match self {
                Self::Random => [Breadth::Full, Breadth::Sample],
                _ => [breadth_of(&problem), Breadth::Sample],
            };
            task(device, problem, breadths)
        });
        let tasks: Box<dyn Iterator<Item = Task>> = match self {
            Self::Plan => Box::new(planned),
            Self::Random | Self::Sampled => Box::new(random),
        };
        device.measure(tasks.filter(|task| !judged.contains(&task.problem)), hours)
    }
}

/// A problem with the first of two breadths that fits in a lease. `None` if neither fits, or if the device has too
/// little memory for the operands.
fn task(device: &Device, problem: Problem, breadths: [Breadth; 2]) -> Option<Task> {
    let cost = |breadth| (breadth, expected_seconds(&device.hardware, &problem, breadth));
    let (breadth, seconds) = breadths.map(cost).into_iter().find(|(_, seconds)| *seconds <= MOST_SECONDS)?;
    (problem.bytes() <= MOST_BYTES as f64).then_some(Task { problem, breadth, seconds })
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Plan => "plan",
            Self::Random => "random, all configs",
            Self::Sampled => "random, as the plan",
        })
    }
}
