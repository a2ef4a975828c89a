//! Our kernels, timed from a pack without Python.

use std::path::Path;
use std::time::Instant;

use diode_core::hardware::Hardware;
use diode_core::{Config, Method, Provenance};

use crate::collect::bench::DeviceArgs;
use crate::commands::tune::timer::{End, Launch, Outcome, Wanted};
use crate::devices::{self, MeasuredConfigs, Meter};
use crate::failure::Interrupted;
use crate::interrupt::Interrupt;

/// The meter gives a median of each config each time, which is a round here.
const ROUNDS: usize = 8;

pub(super) struct PackTimer {
    meter: Box<dyn Meter>,
    pub(super) hardware: Hardware,
    pub(super) provenance: Provenance,
    interrupt: Interrupt,
}

impl PackTimer {
    pub(super) fn start(pack: &Path, interrupt: &Interrupt) -> anyhow::Result<Self> {
        let mut bench = DeviceArgs::of_pack(pack).bench(0, interrupt)?;
        let Some(meter) = bench.meters.pop() else {
            return Err(Interrupted::new("interrupted while the GPU was starting").into());
        };
        let interrupt = interrupt.clone();
        Ok(Self { meter, hardware: bench.hardware, provenance: bench.provenance, interrupt })
    }

    pub(super) fn method(&self) -> Method {
        self.meter.method()
    }

    /// Times the launches of each batch size that is begun by then.
    pub(super) fn run(
        &mut self,
        all: &[Wanted],
        until: Instant,
        mut timed: impl FnMut(u64, Vec<Outcome>) -> anyhow::Result<()>,
    ) -> anyhow::Result<End> {
        for wanted in all.iter().take_while(|_| Instant::now() < until) {
            match self.batch(wanted)? {
                Some(outcomes) => timed(wanted.batch, outcomes)?,
                None => return Ok(End::Stopped),
            }
        }
        Ok(End::Over)
    }

    /// `None` if the user wants it to stop.
    fn batch(&mut self, wanted: &Wanted) -> anyhow::Result<Option<Vec<Outcome>>> {
        let mut outcomes = vec![Outcome::Us(Vec::new()); wanted.launches.len()];
        for _ in 0..ROUNDS {
            for (stage, problem) in wanted.problems.iter().enumerate() {
                let of_stage = |launch: &&Launch| launch.stage == stage;
                let configs: Vec<Config> = wanted
                    .launches
                    .iter()
                    .filter(of_stage)
                    .map(|launch| launch.config.config(problem.k))
                    .collect();
                let interrupt = &self.interrupt;
                let measured = match self.meter.measure(problem, &configs, &|| interrupt.requested())? {
                    devices::Outcome::Measured { measured, .. } => measured,
                    devices::Outcome::Refused(why) => anyhow::bail!("{}: {why}", problem.canonical()),
                    devices::Outcome::Abandoned => return Ok(None),
                };
                let stages = wanted.launches.iter().zip(&mut outcomes);
                for (launch, outcome) in stages.filter(|(launch, _)| of_stage(launch)) {
                    add(&measured, launch.config.config(problem.k), outcome);
                }
            }
        }
        Ok(Some(outcomes))
    }
}

/// Adds a config's median to its rounds.
fn add(measured: &MeasuredConfigs, config: Config, outcome: &mut Outcome) {
    let median = measured.timed.iter().find(|(known, _)| *known == config).and_then(|(_, s)| s.median());
    match (median, &mut *outcome) {
        (Some(nanos), Outcome::Us(rounds)) => rounds.push(nanos as f64 / 1e3),
        (None, Outcome::Us(_)) => {
            let failure = measured.failed.iter().find(|(known, _)| *known == config);
            let why = failure.map_or("not in the pack".to_owned(), |(_, reason)| reason.to_string());
            *outcome = Outcome::Failed(why);
        }
        (_, Outcome::Failed(_)) => {}
    }
}
