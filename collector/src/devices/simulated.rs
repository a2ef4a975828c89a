//! A device with made-up times, for trying servers out with many agents.

use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use diode_core::hardware::Hardware;
use diode_core::simulated::{Oddities, SimulatedDevice};
use diode_core::{Config, KernelVariant, Method, Problem};

use crate::devices::{MeasuredConfigs, Meter, Outcome, Quality};

/// About as long as a quick GPU needs for a problem. Without this wait, a single simulated agent
/// would keep a server busy.
const PER_PROBLEM: Duration = Duration::from_millis(200);
/// How many repeats each config gets.
const REPEATS: usize = 5;

pub(crate) struct SimulatedMeter {
    device: SimulatedDevice,
    /// A random number that differs in each run.
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
        if let Some(why) = KernelVariant::obstacle(problem) {
            return Ok(Outcome::Refused(why));
        }
        thread::sleep(PER_PROBLEM);
        if self.device.begin(problem, self.luck) {
            // The process ends as if it had been killed: it gives nothing back and prints nothing.
            std::process::abort();
        }
        let timed = configs
            .iter()
            .map(|config| (*config, self.device.repeats(problem, config).take(REPEATS).collect()));
        let measured = MeasuredConfigs { timed: timed.collect(), failed: Vec::new() };
        Ok(Outcome::Measured { measured, quality: Quality::default() })
    }
}
