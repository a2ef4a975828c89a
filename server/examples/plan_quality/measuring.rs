use std::collections::HashSet;

use diode_api::Breadth;
use diode_core::hardware::Hardware;
use diode_core::kept::hash;
use diode_core::simulated::SimulatedDevice;
use diode_core::space::{Space, SpaceName};
use diode_core::{Config, ConfigDictionary, Dataset, Method, Problem, Provenance, Solution, TimeColumn};
use diode_model::{Model, Ranker};
use diode_train::TrainingSet;

/// The model that comes with `diode`. Agents choose the configs of a sample by it.
const SHIPPED: &[u8] =
    include_bytes!("../../../trained_models/matmul/nvidia-h200/matmul-nvidia-h200.safetensors");

/// A sample has as many configs as an agent's sample: configs that this model expects to be the fastest, and others
/// that are drawn from the full space.
const EXPECTED: usize = 200;
const DRAWN: usize = 100;

/// A simulated device. It measures within seconds what would take a GPU hours.
pub(crate) struct Device {
    pub(crate) hardware: Hardware,
    pub(crate) times: SimulatedDevice,
    pub(crate) seed: u64,
}

/// A problem to measure, and how long that would take.
pub(crate) struct Task {
    pub(crate) problem: Problem,
    pub(crate) breadth: Breadth,
    pub(crate) seconds: f64,
}

impl Device {
    pub(crate) fn new(hardware: Hardware, seed: u64) -> Self {
        Self { times: SimulatedDevice::new(hardware.clone(), seed), hardware, seed }
    }

    /// The model that comes with `diode`, standing in for the device's hardware.
    pub(crate) fn shipped(&self) -> anyhow::Result<Model> {
        Ok(Model::from_bytes(SHIPPED)?.standing_in_for(self.hardware.clone())?)
    }

    pub(crate) fn nothing(&self) -> Dataset {
        let (hardware, provenance) = (self.hardware.clone(), Provenance::default());
        let (configs, solutions) = (ConfigDictionary::default(), Vec::new());
        Dataset { hardware, provenance, configs, solutions }
    }

    /// Measures one problem after the other, as agents do. Returns what has been measured after each number of hours,
    /// without the problems that are kept for judging.
    pub(crate) fn measure(
        &self,
        mut tasks: impl Iterator<Item = Task>,
        hours: impl Iterator<Item = f64>,
    ) -> anyhow::Result<Vec<(f64, TrainingSet)>> {
        let mut ranker = Ranker::new(Box::new(self.shipped()?));
        let (mut dataset, mut spent, mut sets) = (self.nothing(), 0.0, Vec::new());
        for hours in hours {
            while spent < 3600.0 * hours
                && let Some(task) = tasks.next()
            {
                let configs = self.configs(&task, &mut ranker)?;
                let times =
                    configs.iter().filter_map(|config| self.times.repeats(&task.problem, config).next());
                let times = times.collect();
                add(task.problem, &configs, times, &mut dataset)?;
                spent += task.seconds;
            }
            let set = TrainingSet::from_datasets(std::slice::from_ref(&dataset), None)?;
            sets.push((hours, set.split_kept()?.0));
        }
        Ok(sets)
    }

    /// The configs that an agent would time. Only the configs that are drawn from the full space differ from an
    /// agent's.
    fn configs(&self, task: &Task, ranker: &mut Ranker<Box<Model>>) -> anyhow::Result<Vec<Config>> {
        let problem = &task.problem;
        let space = |name| Space::Named(name).configs(&self.hardware, problem);
        let full = space(SpaceName::Full)?;
        if task.breadth == Breadth::Full {
            return Ok(full);
        }
        let mut configs = space(SpaceName::Default)?;
        configs.retain(|config| full.contains(config));
        let mut known: HashSet<Config> = configs.iter().copied().collect();
        let ranked = ranker.rank(problem, &Space::Named(SpaceName::Full))?;
        let best = ranked.configs.iter().take(EXPECTED).map(|(config, _)| *config);
        configs.extend(best.filter(|config| known.insert(*config)));
        let mut others: Vec<Config> = full.into_iter().filter(|config| !known.contains(config)).collect();
        for at in 0..DRAWN.min(others.len()) {
            let place = hash([problem.m, problem.n, problem.k, at as u64]) as usize % (others.len() - at);
            others.swap(at, at + place);
        }
        others.truncate(DRAWN);
        configs.extend(others);
        Ok(configs)
    }
}

/// Adds the times of one problem.
pub(crate) fn add(
    problem: Problem,
    configs: &[Config],
    nanos: Vec<u64>,
    dataset: &mut Dataset,
) -> anyhow::Result<()> {
    dataset.solutions.push(Solution {
        method: Method::MEDIAN_COLD_EVENT,
        configs: configs.iter().map(|config| dataset.configs.intern(*config)).collect(),
        times: TimeColumn::from_nanos(nanos)?,
        minimum_ns: None,
        spread_ns: None,
        repeats: None,
        failures: Vec::new(),
        problem,
    });
    Ok(())
}
