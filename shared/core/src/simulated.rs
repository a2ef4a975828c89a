//! Made-up times, for trying servers and plans out: physics, quirks of the device, noise.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::str::FromStr;

use crate::hardware::{Hardware, roofline};
use crate::{Config, Invalid, Problem, Tile};

/// The shortest launch of any kernel, in nanoseconds.
const LAUNCH_NS: f64 = 2_000.0;
/// How far one device may be from another of its kind: power, heat, silicon.
const DEVICE_SPREAD: f64 = 0.03;
/// How far a config may be from what the formula says of it: what only measuring shows. Problems of near sizes share
/// it, as on a real device, so that models can learn it.
const CONFIG_SPREAD: f64 = 0.3;
/// How far it may be on one problem besides, whatever is known of near ones.
const PROBLEM_SPREAD: f64 = 0.03;
/// How far one repeat may be from another.
const NOISE: f64 = 0.02;

/// What is odd about a device, for trying out what a server makes of it: `times=0.5,drift=0.1`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Oddities {
    /// What all times are multiplied by; a liar's are not 1.
    pub times: f64,
    /// By which share all times have grown after a thousand problems.
    pub drift: f64,
    /// The share of problems at which the program dies.
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

/// One device whose times are made up. The same seed gives the same times.
#[derive(Debug, Clone)]
pub struct SimulatedDevice {
    hardware: Hardware,
    seed: u64,
    oddities: Oddities,
    /// How many problems it has measured.
    measured: u64,
}

impl SimulatedDevice {
    pub fn new(hardware: Hardware, seed: u64) -> Self {
        Self { hardware, seed, oddities: Oddities::default(), measured: 0 }
    }

    /// The same device, with what is odd about it.
    pub fn with_oddities(self, oddities: Oddities) -> Self {
        Self { oddities, ..self }
    }

    /// Notes that it begins with another problem. Whether the program that it belongs to dies at it, if `luck` is a
    /// number that differs from run to run: otherwise it would die at the same one for ever.
    pub fn begin(&mut self, problem: &Problem, luck: u64) -> bool {
        self.measured += 1;
        unit((luck, problem, self.measured)) < self.oddities.crash
    }

    /// The time of a config without noise, in nanoseconds.
    pub fn nanos(&self, problem: &Problem, config: &Config) -> f64 {
        let alone = unit((config, [problem.b, problem.m, problem.n, problem.k]));
        self.nanos_with(problem, config, alone)
    }

    /// What can be known of that time without measuring the problem itself: a model that has learnt everything
    /// predicts it.
    pub fn learnable_nanos(&self, problem: &Problem, config: &Config) -> f64 {
        self.nanos_with(problem, config, 0.5)
    }

    /// The time where the config is so far, from 0 to 1, from what it takes on near problems.
    fn nanos_with(&self, problem: &Problem, config: &Config, alone: f64) -> f64 {
        let facts = self.hardware.facts.as_ref();
        // Hardware without a peak for the type computes at a teraflop per second.
        let least = facts
            .and_then(|facts| roofline(facts, problem, false))
            .map_or(problem.flops() / 1e3, |l| l.nanos().0);
        let sms = facts.map_or(1.0, |facts| f64::from(facts.sms));
        let efficiency = config.tile().map_or(0.85, |tile| efficiency(tile, problem, sms));
        let device = 1.0 + DEVICE_SPREAD * unit((self.seed, "device"));
        let quirk = 1.0 + CONFIG_SPREAD * quirk(problem, config) + PROBLEM_SPREAD * alone;
        let odd = self.oddities.times * (1.0 + self.oddities.drift * self.measured as f64 / 1e3);
        // A tenth above the roofline: no device reaches it.
        odd * (LAUNCH_NS + 1.1 * least / efficiency * device * quirk)
    }

    /// The times of repeats, in nanoseconds, without end.
    pub fn repeats(&self, problem: &Problem, config: &Config) -> impl Iterator<Item = u64> {
        let nanos = self.nanos(problem, config);
        let decided = unit((self.seed, problem, config)).to_bits();
        (0_u64..).map(move |repeat| (nanos * (1.0 + NOISE * unit((decided, repeat)))).max(1.0) as u64)
    }
}

/// From 0 to 1: how much longer a config takes on problems like this one than a better compiled one would.
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

/// A number from 0 to 1 for each size, of straight lines between those of powers of four.
fn curve(thing: impl Hash, size: u64) -> f64 {
    let place = (size.max(1) as f64).log2() / 2.0;
    let (from, share) = (place.floor(), place.fract());
    unit((&thing, from as u64)) * (1.0 - share) + unit((&thing, from as u64 + 1)) * share
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
