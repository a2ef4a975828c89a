//! A device whose times are made up, for trying servers out with many agents: physics, quirks of the device, noise.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::thread;
use std::time::Duration;

use diode_core::hardware::{Hardware, roofline};
use diode_core::{Config, Method, Problem, Tile};

use super::measured::MeasuredConfigs;
use super::meter::{Meter, Outcome, Quality};
use super::samples::Samples;

/// About what a quick GPU takes. Without it, one simulated agent alone would keep a server busy.
const PER_PROBLEM: Duration = Duration::from_millis(200);
/// Repeats of each config.
const REPEATS: u64 = 5;
/// The shortest launch of any kernel, in nanoseconds.
const LAUNCH_NS: f64 = 2_000.0;
/// How far one device may be from another of its kind: power, heat, silicon.
const DEVICE_SPREAD: f64 = 0.03;
/// How far a config may be from what the formula says of it: what only measuring shows.
const CONFIG_SPREAD: f64 = 0.15;
/// How far one repeat may be from another.
const NOISE: f64 = 0.02;

pub(crate) struct SimulatedMeter {
    hardware: Hardware,
    seed: u64,
}

impl SimulatedMeter {
    pub(crate) fn new(hardware: Hardware, seed: u64) -> Self {
        Self { hardware, seed }
    }

    /// The time of a config without noise, in nanoseconds.
    fn nanos(&self, problem: &Problem, config: &Config) -> f64 {
        let facts = self.hardware.facts.as_ref();
        // Hardware without a peak for the type computes at a teraflop per second.
        let least = facts
            .and_then(|facts| roofline(facts, problem, false))
            .map_or(problem.flops() / 1e3, |l| l.nanos().0);
        let sms = facts.map_or(1.0, |facts| f64::from(facts.sms));
        let efficiency = config.tile().map_or(0.85, |tile| efficiency(tile, problem, sms));
        let device = 1.0 + DEVICE_SPREAD * unit((self.seed, "device"));
        let quirk = 1.0 + CONFIG_SPREAD * unit((config, problem.m % 7, problem.n % 5, problem.k % 3));
        // A tenth above the roofline: no device reaches it.
        LAUNCH_NS + 1.1 * least / efficiency * device * quirk
    }
}

/// The share of the roofline that a tile can reach: what it computes beyond the problem, the last wave, and
/// how often it loads each operand.
fn efficiency(tile: &Tile, problem: &Problem, sms: f64) -> f64 {
    let (m, n, k) = (problem.m as f64, problem.n as f64, problem.k as f64);
    let (bm, bn, bk) = (f64::from(tile.block_m), f64::from(tile.block_n), f64::from(tile.block_k));
    let (tiles_m, tiles_n, steps) = ((m / bm).ceil(), (n / bn).ceil(), (k / bk).ceil());
    let useful = m * n * k / (tiles_m * bm * tiles_n * bn * steps * bk);
    let blocks = problem.b as f64 * tiles_m * tiles_n;
    let waves = blocks / sms;
    let busy = waves / waves.ceil();
    let reuse = bm * bn / (bm + bn) / 64.0;
    let pipeline = 1.0 - 0.4 / f64::from(tile.num_stages.max(1));
    (useful * busy.powf(0.7) * reuse.min(1.0).powf(0.5) * pipeline).clamp(1e-3, 1.0)
}

/// A number from 0 to 1 that is the same for the same thing.
fn unit(thing: impl Hash) -> f64 {
    let mut hasher = DefaultHasher::new();
    thing.hash(&mut hasher);
    (hasher.finish() >> 11) as f64 / (1_u64 << 53) as f64
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
        let id = problem.id();
        let timed = configs.iter().map(|config| {
            let nanos = self.nanos(problem, config);
            let noise = |repeat| 1.0 + NOISE * unit((self.seed, id.as_str(), config, repeat));
            let mut samples = Samples::default();
            samples.add((0..REPEATS).map(|repeat| (nanos * noise(repeat)) as u64));
            (*config, samples)
        });
        let measured = MeasuredConfigs { timed: timed.collect(), failed: Vec::new() };
        Ok(Outcome::Measured { measured, quality: Quality::default() })
    }
}

#[cfg(test)]
mod tests {
    use diode_core::hardware::{find, floor};
    use diode_core::space::{Space, SpaceName};
    use diode_core::{DType, Op, ProblemFields};

    use super::*;

    fn measured(seed: u64, side: u64) -> (Problem, MeasuredConfigs) {
        let hardware = find("nvidia-h200").unwrap();
        let problem =
            Problem::new(ProblemFields::plain(Op::Mm, 1, side, side, side, DType::BFloat16)).unwrap();
        let configs = Space::Named(SpaceName::Full).configs(&hardware, &problem).unwrap();
        let outcome = SimulatedMeter::new(hardware, seed).measure(&problem, &configs, &|| false).unwrap();
        let Outcome::Measured { measured, .. } = outcome else { panic!("nothing was measured") };
        (problem, measured)
    }

    fn medians(measured: &MeasuredConfigs) -> Vec<u64> {
        measured.timed.iter().map(|(_, samples)| samples.median().unwrap()).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_times_and_another_nearly_the_same() {
        let (one, again, other) = (measured(1, 1000).1, measured(1, 1000).1, measured(2, 1000).1);
        assert_eq!(medians(&one), medians(&again));
        assert_ne!(medians(&one), medians(&other));
        for (one, other) in medians(&one).into_iter().zip(medians(&other)) {
            assert!((one as f64 / other as f64 - 1.0).abs() < 0.06, "{one} {other}");
        }
    }

    #[test]
    fn times_are_possible_and_differ_as_tiles_do() {
        let facts = find("nvidia-h200").unwrap().facts.unwrap();
        for side in [1, 16, 100, 1000, 4096, 16_000] {
            let (problem, measured) = measured(1, side);
            let least = floor(&facts, &problem, Method::MEDIAN_COLD_EVENT, false).unwrap().nanos().0;
            let best = measured.best().unwrap();
            assert!(
                best as f64 >= least && best as f64 <= 4.0 * least + 10.0 * LAUNCH_NS,
                "{side}: {best} {least}"
            );
        }
        let times = medians(&measured(1, 4096).1);
        assert!(times.iter().max().unwrap() > &(3 * times.iter().min().unwrap()));
    }
}
