use std::fmt;
use std::ops::ControlFlow;
use std::time::Instant;

use diode_train::{TrainOptions, TrainingSet, train};

use crate::arm::Arm;
use crate::judge::{Judge, Quality};

/// The same for all training sets, so that trainings that see equally many problems take equally many steps.
const PROBLEMS_PER_STEP: usize = 8;

/// A training on what an arm has measured after some hours.
pub(crate) struct Training<'a> {
    pub(crate) arm: Arm,
    pub(crate) seed: u64,
    pub(crate) hours: f64,
    pub(crate) set: TrainingSet,
    /// How many problems the training sees; `None` for as many as on a server.
    pub(crate) seen: Option<usize>,
    pub(crate) by: &'a [Judge; 2],
}

/// A trained model's results: its `qualities` are by the judge of layers, and by the judge of random shapes.
pub(crate) struct Trained {
    pub(crate) arm: Arm,
    pub(crate) seed: u64,
    pub(crate) hours: f64,
    pub(crate) qualities: [Quality; 2],
    problems: usize,
    timings: usize,
    seconds: f64,
}

impl Training<'_> {
    pub(crate) fn run(self) -> anyhow::Result<Trained> {
        let Self { arm, seed, hours, set, seen, by: [layers, anywhere] } = self;
        let epochs = seen.map(|seen| seen.div_ceil(set.problems()));
        let start = Instant::now();
        let problems_per_step = seen.map(|_| PROBLEMS_PER_STEP);
        let options = TrainOptions { epochs, seed, problems_per_step, ..TrainOptions::default() };
        let model = train(&set, &options, String::new(), &mut |_| ControlFlow::Continue(()))?;
        let seconds = start.elapsed().as_secs_f64();
        let qualities = [layers.quality(&model)?, anywhere.quality(&model)?];
        let (problems, timings) = (set.problems(), set.timings());
        Ok(Trained { arm, seed, hours, qualities, problems, timings, seconds })
    }
}

impl fmt::Display for Trained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { arm, seed, hours, qualities: [layers, anywhere], problems, timings, seconds } = self;
        write!(f, "seed {seed}, {arm:>19}, {hours:>4} h: {layers} of layers, {anywhere} anywhere ")?;
        write!(f, "({problems} problems, {timings} timings, trained in {seconds:.0} s)")
    }
}
