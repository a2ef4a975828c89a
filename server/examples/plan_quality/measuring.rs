use diode_core::api::Breadth;
use diode_core::hardware::Hardware;
use diode_core::mixing::hash;
use diode_core::simulated::SimulatedDevice;
use diode_core::space::{Space, SpaceName};
use diode_core::{Config, ConfigDictionary, Dataset, Method, Problem, Provenance, Solution, TimeColumn};
use diode_server::agents::plan::{breadth_of, expected_seconds};
use diode_train::TrainingSet;

/// The longest that one problem may take, which is the length of a lease.
pub(crate) const MOST_SECONDS: f64 = 120.0;

/// The most memory that the operands of a problem may take.
const MOST_BYTES: f64 = (8_u64 << 30) as f64;

/// Configs of the full space in a sample, besides the default ones. Agents time the 200 best by the shipped model
/// too; here no model is to know anything beforehand.
const DRAWN: usize = 100;

/// Which configs of a problem are timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Configs {
    /// All, or a sample where all would take too long.
    All,
    /// A sample of most problems, all of the others.
    OfThePlan,
}

/// A device that measures in no time what would take hours.
pub(crate) struct Device {
    hardware: Hardware,
    times: SimulatedDevice,
}

/// What it has measured, and how long that would have taken.
pub(crate) struct Measured {
    pub(crate) dataset: Dataset,
    seconds: f64,
}

impl Device {
    pub(crate) fn new(hardware: Hardware, seed: u64) -> Self {
        Self { times: SimulatedDevice::new(hardware.clone(), seed), hardware }
    }

    pub(crate) fn nothing(&self) -> Measured {
        let (hardware, provenance) = (self.hardware.clone(), Provenance::default());
        let (configs, solutions) = (ConfigDictionary::default(), Vec::new());
        Measured { dataset: Dataset { hardware, provenance, configs, solutions }, seconds: 0.0 }
    }

    /// Measures one problem after the other, as agents do, until so many hours are spent.
    pub(crate) fn measure_until(
        &self,
        hours: f64,
        configs: Configs,
        problems: &mut dyn Iterator<Item = Problem>,
        measured: &mut Measured,
    ) -> anyhow::Result<()> {
        while measured.seconds < 3600.0 * hours {
            let Some(problem) = problems.next() else { break };
            let Some((breadth, seconds)) = self.cost(&problem, configs) else { continue };
            measured.seconds += seconds;
            self.measure(problem, breadth, &mut measured.dataset)?;
        }
        Ok(())
    }

    /// All configs of some problems, to judge by.
    pub(crate) fn held_out(
        &self,
        problems: impl IntoIterator<Item = Problem>,
    ) -> anyhow::Result<TrainingSet> {
        let mut measured = self.nothing();
        for problem in problems.into_iter().filter(|problem| self.cost(problem, Configs::OfThePlan).is_some())
        {
            self.measure(problem, Breadth::Full, &mut measured.dataset)?;
        }
        Ok(TrainingSet::from_datasets(&[measured.dataset], None)?)
    }

    /// What the server expects; `None` if the problem is too much for a lease or the device.
    fn cost(&self, problem: &Problem, configs: Configs) -> Option<(Breadth, f64)> {
        let fits = problem.bytes() <= MOST_BYTES;
        let first = if configs == Configs::All { Breadth::Full } else { breadth_of(problem) };
        let breadths = [first, Breadth::Sample].into_iter().filter(|_| fits);
        let mut costs = breadths.map(|breadth| (breadth, expected_seconds(&self.hardware, problem, breadth)));
        costs.find(|(_, seconds)| *seconds <= MOST_SECONDS)
    }

    fn measure(&self, problem: Problem, breadth: Breadth, dataset: &mut Dataset) -> anyhow::Result<()> {
        let list = self.configs(&problem, breadth)?;
        let times = list.iter().filter_map(|config| self.times.repeats(&problem, config).next()).collect();
        dataset.solutions.push(Solution {
            method: Method::MEDIAN_COLD_EVENT,
            configs: list.iter().map(|config| dataset.configs.intern(*config)).collect(),
            times: TimeColumn::from_nanos(times)?,
            minimum_ns: None,
            spread_ns: None,
            repeats: None,
            failures: Vec::new(),
            problem,
        });
        Ok(())
    }

    /// The configs that an agent times, but for which of the full space are drawn.
    fn configs(&self, problem: &Problem, breadth: Breadth) -> anyhow::Result<Vec<Config>> {
        let space = |name| Space::Named(name).configs(&self.hardware, problem);
        let full = space(SpaceName::Full)?;
        if breadth == Breadth::Full {
            return Ok(full);
        }
        let mut configs = space(SpaceName::Default)?;
        configs.retain(|config| full.contains(config));
        let mut others: Vec<Config> = full.into_iter().filter(|config| !configs.contains(config)).collect();
        for at in 0..DRAWN.min(others.len()) {
            let place = hash([problem.m, problem.n, problem.k, at as u64]) as usize % (others.len() - at);
            others.swap(at, at + place);
        }
        others.truncate(DRAWN);
        configs.extend(others);
        Ok(configs)
    }
}
