//! Made-up times, to try out servers and plans. They combine physics, quirks of the device and noise.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::str::FromStr;

use crate::hardware::{Hardware, roofline};
use crate::{Config, Invalid, Problem, Tile};

/// The least time of any kernel's launch, in nanoseconds.
const LAUNCH_NS: f64 = 2_000.0;
/// The share by which devices of the same hardware may differ: power, heat and silicon vary.
const DEVICE_SPREAD: f64 = 0.03;
/// The share by which a config may be slower than the formula says. Problems of similar sizes share this
/// difference, as on a real device, so models can learn it from measurements.
const CONFIG_SPREAD: f64 = 0.3;
/// The share by which a config may be slower on one problem alone. Similar problems tell nothing about it.
const PROBLEM_SPREAD: f64 = 0.03;
/// The share by which repeats may differ.
const NOISE: f64 = 0.02;

/// Faults of a simulated device, to see what a server does about them: `times=0.5,drift=0.1`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Oddities {
    /// The factor of all times. A factor other than 1 makes them false.
    pub times: f64,
    /// The share by which times grow over a thousand problems.
    pub drift: f64,
    /// The share of problems at which the program crashes.
    pub crash: f64,
}

impl Default for Oddities {
    fn default() -> Self {
        Self { times: 1.0, drift: 0.0, crash: 0.0 }
    }
}

impl FromStr for Oddities {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let mut odd = Self::default();
        for part in text.split(',') {
            let wrong = |expected| Invalid::new("oddity", format_args!("`{part:.40}`"), expected);
            let names = "times=FACTOR, drift=SHARE or crash=SHARE, separated by commas";
            let (name, value) = part.split_once('=').ok_or_else(|| wrong(names))?;
            let value: Option<f64> = value.parse().ok();
            let within = |range: std::ops::RangeInclusive<f64>, expected| {
                value.filter(|value| range.contains(value)).ok_or_else(|| wrong(expected))
            };
            match name {
                "times" => odd.times = within(1e-6..=1e6, "a factor from 0.000001 to 1000000")?,
                "drift" => odd.drift = within(-0.9..=100.0, "a share from -0.9 to 100")?,
                "crash" => odd.crash = within(0.0..=1.0, "a share from 0 to 1")?,
                _ => return Err(wrong(names)),
            }
        }
        Ok(odd)
    }
}

/// One device with made-up times. The same seed gives the same times.
#[derive(Debug, Clone)]
pub struct SimulatedDevice {
    hardware: Hardware,
    seed: u64,
    oddities: Oddities,
    /// How many problems the device has measured.
    measured: u64,
}

impl SimulatedDevice {
    pub fn new(hardware: Hardware, seed: u64) -> Self {
        Self { hardware, seed, oddities: Oddities::default(), measured: 0 }
    }

    /// The same device with these faults.
    pub fn with_oddities(self, oddities: Oddities) -> Self {
        Self { oddities, ..self }
    }

    /// Counts another problem, and returns whether the device's program crashes at it. `luck` must differ
    /// from run to run. Otherwise the program would crash at the same problem in every run.
    pub fn begin(&mut self, problem: &Problem, luck: u64) -> bool {
        self.measured += 1;
        unit((luck, problem, self.measured)) < self.oddities.crash
    }

    /// The time of a config without noise, in nanoseconds.
    pub fn nanos(&self, problem: &Problem, config: &Config) -> f64 {
        let alone = unit((config, [problem.b, problem.m, problem.n, problem.k]));
        self.nanos_with(problem, config, alone)
    }

    /// The part of a config's time that can be learnt from other problems. A perfect model predicts it.
    pub fn learnable_nanos(&self, problem: &Problem, config: &Config) -> f64 {
        self.nanos_with(problem, config, 0.5)
    }

    /// The time of a config. `alone`, from 0 to 1, is how much slower the config is on this problem than on
    /// similar ones.
    fn nanos_with(&self, problem: &Problem, config: &Config, alone: f64) -> f64 {
        let facts = self.hardware.facts.as_ref();
        // Hardware without a peak for the type computes 10¹² operations per second.
        let least = facts
            .and_then(|facts| roofline(facts, problem, false))
            .map_or(problem.flops() / 1e3, |l| l.nanos().0);
        let sms = facts.map_or(1.0, |facts| f64::from(facts.sms));
        let efficiency = config.tile().map_or(0.85, |tile| efficiency(tile, problem, sms));
        let device = 1.0 + DEVICE_SPREAD * unit((self.seed, "device"));
        let quirk = 1.0 + CONFIG_SPREAD * quirk(problem, config) + PROBLEM_SPREAD * alone;
        let odd = self.oddities.times * (1.0 + self.oddities.drift * self.measured as f64 / 1e3);
        // The time is a tenth above the roofline's, since no device reaches the roofline.
        odd * (LAUNCH_NS + 1.1 * least / efficiency * device * quirk)
    }

    /// An endless stream of repeats, in nanoseconds.
    pub fn repeats(&self, problem: &Problem, config: &Config) -> impl Iterator<Item = u64> {
        let nanos = self.nanos(problem, config);
        let decided = unit((self.seed, problem, config)).to_bits();
        (0_u64..).map(move |repeat| (nanos * (1.0 + NOISE * unit((decided, repeat)))).max(1.0) as u64)
    }
}

/// How much longer a config takes on problems like this one than the formula says, from 0 to 1.
fn quirk(problem: &Problem, config: &Config) -> f64 {
    let Some(tile) = config.tile() else { return curve((config, problem.op), problem.m) };
    let (op, dtype, layout) = (problem.op, problem.a_dtype, problem.b_layout);
    let Tile { block_m, block_n, block_k, num_stages, num_warps, .. } = tile;
    let curves = [
        curve((dtype, block_m, block_n, num_warps), problem.m),
        curve((layout, block_n, block_k, num_stages), problem.n),
        curve((op, block_k, num_stages, num_warps), problem.k),
    ];
    curves.iter().sum::<f64>() / curves.len() as f64
}

/// A number from 0 to 1 for each size. Powers of four have random numbers, with straight lines in between.
fn curve(thing: impl Hash, size: u64) -> f64 {
    let place = (size.max(1) as f64).log2() / 2.0;
    let (from, share) = (place.floor(), place.fract());
    unit((&thing, from as u64)) * (1.0 - share) + unit((&thing, from as u64 + 1)) * share
}

/// The share of the roofline that a tile reaches. It is lower if blocks reach beyond the problem, if the
/// last wave is incomplete, if operands are loaded often, and if there are few stages.
fn efficiency(tile: &Tile, problem: &Problem, sms: f64) -> f64 {
    let groups = problem.distinct_groups();
    let (m, n, k) = (problem.rows() as f64 / groups, problem.n as f64, problem.k as f64);
    let (bm, bn, bk) = (f64::from(tile.block_m), f64::from(tile.block_n), f64::from(tile.block_k));
    let (tiles_m, tiles_n, steps) = ((m / bm).ceil(), (n / bn).ceil(), (k / bk).ceil());
    let useful = m * n * k / (tiles_m * bm * tiles_n * bn * steps * bk);
    let blocks = problem.b as f64 * groups * tiles_m * tiles_n;
    let waves = blocks / sms;
    let busy = waves / waves.ceil();
    let reuse = bm * bn / (bm + bn) / 64.0;
    let pipeline = 1.0 - 0.4 / f64::from(tile.num_stages.max(1));
    (useful * busy.powf(0.7) * reuse.min(1.0).powf(0.5) * pipeline).clamp(1e-3, 1.0)
}

/// A number from 0 to 1 that looks random. The same thing always gives the same number.
fn unit(thing: impl Hash) -> f64 {
    let mut hasher = DefaultHasher::new();
    thing.hash(&mut hasher);
    (hasher.finish() >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::{find, floor};
    use crate::space::{Space, SpaceName};
    use crate::{DType, Method, Op, ProblemFields};

    #[test]
    fn oddities_are_read_and_change_the_times() {
        let odd: Oddities = "times=0.5,drift=0.1,crash=0.01".parse().unwrap();
        assert_eq!(odd, Oddities { times: 0.5, drift: 0.1, crash: 0.01 });
        for wrong in ["", "times", "times=", "times=0", "times=x", "crash=2", "heat=1", "drift=-1"] {
            assert!(wrong.parse::<Oddities>().is_err(), "{wrong}");
        }
        let (problem, honest) = times(1, 1000);
        let hardware = find("nvidia-h200").unwrap();
        let configs = Space::Named(SpaceName::Full).configs(&hardware, &problem).unwrap();
        let mut device = SimulatedDevice::new(hardware, 1).with_oddities(odd);
        let first = |device: &SimulatedDevice| device.repeats(&problem, &configs[0]).next().unwrap() as f64;
        let before = first(&device);
        assert!((before / honest[0] as f64 - 0.5).abs() < 0.001);
        let crashes = (0..10_000).filter(|_| device.begin(&problem, 7)).count();
        assert!((50..200).contains(&crashes), "{crashes}");
        assert!((first(&device) / before - 2.0).abs() < 0.001, "after ten thousand problems");
    }

    fn times(seed: u64, side: u64) -> (Problem, Vec<u64>) {
        let hardware = find("nvidia-h200").unwrap();
        let problem =
            Problem::new(ProblemFields::plain(Op::Mm, 1, side, side, side, DType::BFloat16)).unwrap();
        let configs = Space::Named(SpaceName::Full).configs(&hardware, &problem).unwrap();
        let device = SimulatedDevice::new(hardware, seed);
        let times = configs.iter().filter_map(|config| device.repeats(&problem, config).next()).collect();
        (problem, times)
    }

    #[test]
    fn the_same_seed_gives_the_same_times_and_another_nearly_the_same() {
        let (one, again, other) = (times(1, 1000).1, times(1, 1000).1, times(2, 1000).1);
        assert_eq!(one, again);
        assert_ne!(one, other);
        for (one, other) in one.into_iter().zip(other) {
            assert!((one as f64 / other as f64 - 1.0).abs() < 0.06, "{one} {other}");
        }
    }

    #[test]
    fn what_a_problem_alone_shows_is_little_and_not_nothing() {
        let hardware = find("nvidia-h200").unwrap();
        let fields = ProblemFields::plain(Op::Mm, 1, 1000, 2000, 3000, DType::BFloat16);
        let problem = Problem::new(fields).unwrap();
        let configs = Space::Named(SpaceName::Full).configs(&hardware, &problem).unwrap();
        let device = SimulatedDevice::new(hardware, 1);
        let ratio = |config| device.nanos(&problem, config) / device.learnable_nanos(&problem, config);
        let ratios: Vec<f64> = configs.iter().map(ratio).collect();
        assert!(ratios.iter().all(|ratio| (ratio - 1.0).abs() <= PROBLEM_SPREAD / 2.0), "{ratios:?}");
        assert!(ratios.iter().any(|ratio| (ratio - 1.0).abs() > PROBLEM_SPREAD / 4.0), "{ratios:?}");
    }

    #[test]
    fn times_are_possible_and_differ_as_tiles_do() {
        let facts = find("nvidia-h200").unwrap().facts.unwrap();
        for side in [1, 16, 100, 1000, 4096, 16_000] {
            let (problem, times) = times(1, side);
            let least = floor(&facts, &problem, Method::MEDIAN_COLD_EVENT, false).unwrap().nanos().0;
            let best = *times.iter().min().unwrap();
            assert!(
                best as f64 >= least && best as f64 <= 4.0 * least + 10.0 * LAUNCH_NS,
                "{side}: {best} {least}"
            );
        }
        let (_, times) = times(1, 4096);
        assert!(times.iter().max().unwrap() > &(3 * times.iter().min().unwrap()));
    }
}
