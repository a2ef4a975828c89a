use std::fmt;

use diode_api::Breadth;
use diode_core::space::{Space, SpaceName};
use diode_core::{Config, Problem};
use diode_model::Predictor;
use diode_server::agents::plan::expected_seconds;
use diode_train::{TrainingSet, judge};

use crate::arm::{MOST_BYTES, MOST_SECONDS};
use crate::measuring::{Device, add};
use crate::shapes;
use crate::table::mean_and_error;

/// How many random shapes are drawn for a judge. Shapes that take too long for a lease are left out afterwards.
const ANYWHERE: usize = 600;

/// Problems by which models are judged, with the times of all configs. The times have no noise.
pub(crate) struct Judge {
    name: &'static str,
    set: TrainingSet,
    /// The quality of a model that has learnt everything except the peculiarities of single problems.
    most: Quality,
    /// The quality of the model that comes with `diode`, before anything is measured.
    least: Quality,
}

/// The first picks' share of the best speed in percent, and its standard error over the problems.
#[derive(Clone, Copy)]
pub(crate) struct Quality {
    pub(crate) percent: f64,
    error: f64,
}

impl Judge {
    /// Two judges: one has the layers of transformers, the other has shapes that are drawn as for
    /// `Arm::Random`.
    pub(crate) fn both(device: &Device) -> anyhow::Result<[Self; 2]> {
        let anywhere = shapes::anywhere(1000 + device.seed).take(ANYWHERE);
        Ok([Self::new("layers", device, shapes::layers()?)?, Self::new("anywhere", device, anywhere)?])
    }

    fn new(
        name: &'static str,
        device: &Device,
        problems: impl IntoIterator<Item = Problem>,
    ) -> anyhow::Result<Self> {
        let (mut dataset, mut most) = (device.nothing(), Vec::new());
        let fits = |problem: &Problem| {
            problem.bytes() <= MOST_BYTES as f64
                && expected_seconds(&device.hardware, problem, Breadth::Sample) <= MOST_SECONDS
        };
        for problem in problems.into_iter().filter(fits) {
            let configs = Space::Named(SpaceName::Full).configs(&device.hardware, &problem)?;
            let nanos = |config: &Config| device.times.nanos(&problem, config);
            let learnable = |config: &&Config| device.times.learnable_nanos(&problem, config);
            let picked = configs.iter().min_by(|a, b| learnable(a).total_cmp(&learnable(b)));
            let best = configs.iter().map(nanos).fold(f64::INFINITY, f64::min);
            most.extend(picked.map(|config| best / nanos(config)));
            let times = configs.iter().map(|config| nanos(config) as u64).collect();
            add(problem, &configs, times, &mut dataset)?;
        }
        let set = TrainingSet::from_datasets(&[dataset], None)?;
        let (most, least) = (Quality::of(&most), quality(&set, &device.shipped()?)?);
        Ok(Self { name, set, most, least })
    }

    pub(crate) fn problems(&self) -> impl Iterator<Item = &Problem> {
        self.set.iter().map(|judged| &judged.problem)
    }

    pub(crate) fn quality(&self, model: &dyn Predictor) -> anyhow::Result<Quality> {
        quality(&self.set, model)
    }
}

fn quality(set: &TrainingSet, model: &dyn Predictor) -> anyhow::Result<Quality> {
    let judged = judge(model, set)?;
    let shares: Vec<f64> = judged.iter().map(|judged| judged.best().measured_us / judged.picked(1)).collect();
    Ok(Quality::of(&shares))
}

impl Quality {
    /// The geometric mean of the shares that single problems reach.
    fn of(shares: &[f64]) -> Self {
        let logs: Vec<f64> = shares.iter().map(|share| share.ln()).collect();
        let (mean, error) = mean_and_error(&logs);
        Self { percent: 100.0 * mean.exp(), error: 100.0 * error }
    }
}

impl fmt::Display for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, set, most, least } = self;
        let problems = set.problems();
        write!(f, "{name}: {problems} problems, {least} before anything is measured, at most {most}")
    }
}

impl fmt::Display for Quality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ± {:.2}", self.percent, self.error)
    }
}
