//! A device whose times are made up, for trying servers out with many agents.

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use diode_core::hardware::Hardware;
use diode_core::simulated::{Oddities, SimulatedDevice};
use diode_core::{Config, Method, Problem};

use super::measured::MeasuredConfigs;
use super::meter::{Meter, Outcome, Quality};
use super::samples::Samples;

/// About what a quick GPU takes. Without it, one simulated agent alone would keep a server busy.
const PER_PROBLEM: Duration = Duration::from_millis(200);
/// Repeats of each config.
const REPEATS: usize = 5;

pub(crate) struct SimulatedMeter {
    device: SimulatedDevice,
    /// Differs from run to run.
    luck: u64,
}

impl SimulatedMeter {
    pub(crate) fn new(hardware: Hardware, seed: u64, oddities: Oddities) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let device = SimulatedDevice::new(hardware, seed).with_oddities(oddities);
        Self { device, luck: since.as_nanos() as u64 }
    }
}

impl Meter for SimulatedMeter {
    fn method(&self) -> Method {
        Method::MEDIAN_COLD_EVENT
    }

    fn measure(
        &mut self,
        problem: &Problem,
        configs: &[Config],
        abandon: &dyn Fn() -> bool,
    ) -> anyhow::Result<Outcome> {
        if abandon() {
            return Ok(Outcome::Abandoned);
        }
        thread::sleep(PER_PROBLEM);
        if self.device.begin(problem, self.luck) {
            // As if it had been killed: nothing is given back or said.
            std::process::abort();
        }
        let timed = configs.iter().map(|config| {
            let mut samples = Samples::default();
            samples.add(self.device.repeats(problem, config).take(REPEATS));
            (*config, samples)
        });
        let measured = MeasuredConfigs { timed: timed.collect(), failed: Vec::new() };
        Ok(Outcome::Measured { measured, quality: Quality::default() })
    }
}
