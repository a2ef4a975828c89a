//! The consensus of a view: the time of every config over all its solutions.
//!
//! The time of a config is the median over the solutions that timed it, so one
//! odd upload among several cannot move a leaderboard far.

use std::collections::{BTreeMap, HashMap, HashSet};

use diode_core::hardware::{Hardware, roofline};
use diode_core::space::{Space, SpaceName};
use diode_core::stats::median;
use diode_core::{Config, FailureReason, Nanos, Problem, Tflops, Tile};

use crate::solutions::{ConfigLists, DecodedSolution, StoredSolutions};

/// The summary of a view that leaderboards read.
#[derive(Debug, Clone, PartialEq)]
pub struct BoardEntry {
    pub best: Config,
    pub best_ns: f64,
    /// `None` without a roofline: times that nothing bounds make no rate.
    pub tflops: Option<f64>,
    pub roofline_share: Option<f64>,
    pub gain_over_defaults: Option<f64>,
    pub library_ns: Option<f64>,
    pub configs: u64,
    pub timings: u64,
    pub solutions: u64,
}

/// The board entry of one view: a function of the view's stored solutions, its
/// problem and its hardware, and of nothing else. Damaged solutions do not count.
/// `None` if no config has a time. Long work: not for an async thread.
pub(crate) fn board_entry(
    stored: &StoredSolutions,
    lists: &mut ConfigLists,
    problem: &Problem,
    hardware: &Hardware,
) -> Option<BoardEntry> {
    Consensus::of_stored(stored, lists).board_entry(problem, hardware)
}

/// The median time of one config.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AgreedTime {
    pub(crate) config: Config,
    pub(crate) time: Nanos,
    /// The number of timings that it is the median of.
    pub(crate) timings: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Consensus {
    /// Every timed config once, fastest first; equals in the order of configs.
    pub(crate) configs: Vec<AgreedTime>,
    /// Configs that failed and that no solution has a time for.
    pub(crate) failures: BTreeMap<Config, FailureReason>,
    pub(crate) solutions: u64,
    pub(crate) timings: u64,
}

impl Consensus {
    /// Over the solutions that can be read. The others are in the log, and `admin verify` lists them.
    pub(crate) fn of_stored(stored: &StoredSolutions, lists: &mut ConfigLists) -> Self {
        let decoded = stored.decode_with(lists);
        for damaged in stored.damaged.iter().chain(&decoded.damaged) {
            tracing::error!("left out of a consensus: {damaged}");
        }
        let solutions: Vec<DecodedSolution> =
            decoded.solutions.into_iter().map(|(_, solution)| solution).collect();
        Self::of(&solutions)
    }

    pub(crate) fn of(solutions: &[DecodedSolution]) -> Self {
        let mut gathered = Gathered::default();
        for solution in solutions {
            gathered.add(solution);
        }
        let timed: HashSet<Config> =
            gathered.times.iter().filter(|times| times.timings > 0).map(|times| times.config).collect();
        let failed = solutions.iter().flat_map(DecodedSolution::failed);
        let failures = failed.filter(|(config, _)| !timed.contains(config)).collect();
        let timings = gathered.times.iter().map(|times| u64::from(times.timings)).sum();
        let agreed = |mut times: Times| {
            let time = Nanos(median(&mut times.of_solutions)?);
            Some(AgreedTime { config: times.config, time, timings: times.timings })
        };
        let mut configs: Vec<AgreedTime> = gathered.times.into_iter().filter_map(agreed).collect();
        configs.sort_by(|a, b| a.time.0.total_cmp(&b.time.0).then_with(|| a.config.cmp(&b.config)));
        Self { failures, solutions: solutions.len() as u64, timings, configs }
    }

    /// `None` if no config has a time.
    pub(crate) fn board_entry(&self, problem: &Problem, hardware: &Hardware) -> Option<BoardEntry> {
        let best = self.configs.first()?;
        let roofline = self.roofline(problem, hardware);
        let rate = roofline.map(|_| Tflops::from_work(problem.flops(), best.time.micros()).0);
        let share = roofline.map(|roof| roof / best.time.0);
        let gain = self.best_default(problem, hardware).map(|time| time.0 / best.time.0);
        // Databases hold times that were taken before there was a least time.
        let finite = |ratio: Option<f64>| ratio.filter(|ratio| ratio.is_finite());
        Some(BoardEntry {
            best: best.config,
            best_ns: best.time.0,
            tflops: finite(rate),
            roofline_share: finite(share),
            gain_over_defaults: finite(gain),
            library_ns: self.configs.iter().find(|c| c.config == Config::Library).map(|c| c.time.0),
            configs: self.configs.len() as u64,
            timings: self.timings,
            solutions: self.solutions,
        })
    }

    /// The roofline time in nanoseconds, with the arithmetic the best config may use.
    pub(crate) fn roofline(&self, problem: &Problem, hardware: &Hardware) -> Option<f64> {
        let best = self.configs.first()?;
        let allow_tf32 = best.config.tile().is_some_and(|tile| tile.allow_tf32);
        Some(roofline(hardware.facts.as_ref()?, problem, allow_tf32)?.nanos().0)
    }

    /// The best time among Inductor's default configs for the problem.
    /// `None` if none of them was timed, or the hardware has no default list.
    fn best_default(&self, problem: &Problem, hardware: &Hardware) -> Option<Nanos> {
        let defaults = Space::Named(SpaceName::Default).configs(hardware, problem).ok()?;
        // The list is sorted by time, so the first hit is the best.
        let hit = self.configs.iter().find(|agreed| match agreed.config {
            Config::Mm(tile) | Config::Bmm(tile) => {
                defaults.iter().filter_map(Config::tile).any(|default| is_the_default(&tile, default))
            }
            Config::PersistentTma(_) | Config::DecomposeK { .. } | Config::Library => false,
        })?;
        Some(hit.time)
    }
}

/// The times of one config.
struct Times {
    config: Config,
    /// One per solution: its median, if it timed the config more than once.
    of_solutions: Vec<f64>,
    timings: u32,
}

/// The times of every config. Solutions share config lists, so each list is looked up once, and each
/// further solution only appends numbers.
#[derive(Default)]
struct Gathered {
    times: Vec<Times>,
    places: HashMap<Config, u32>,
    /// By the address of the list, which its solutions keep alive: the places of its configs, and
    /// whether each is there once.
    lists: HashMap<*const Config, (Vec<u32>, bool)>,
}

impl Gathered {
    fn add(&mut self, solution: &DecodedSolution) {
        let rows = solution.timed().len();
        let list = solution.list();
        if !self.lists.contains_key(&list.as_ptr()) {
            let places: Vec<u32> = list.iter().map(|config| self.place(*config)).collect();
            let distinct = places.iter().collect::<HashSet<_>>().len() == places.len();
            self.lists.insert(list.as_ptr(), (places, distinct));
        }
        let (places, distinct) = &self.lists[&list.as_ptr()];
        let timed = places[..rows].iter().zip(solution.timed().map(|(_, time)| time.0));
        if *distinct {
            for (&place, time) in timed {
                self.times[place as usize].push(time, 1);
            }
            return;
        }
        let mut repeats: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        for (&place, time) in timed {
            repeats.entry(place).or_default().push(time);
        }
        for (place, mut repeats) in repeats {
            let timings = repeats.len() as u32;
            if let Some(time) = median(&mut repeats) {
                self.times[place as usize].push(time, timings);
            }
        }
    }

    fn place(&mut self, config: Config) -> u32 {
        let times = &mut self.times;
        *self.places.entry(config).or_insert_with(|| {
            times.push(Times { config, of_solutions: Vec::new(), timings: 0 });
            times.len() as u32 - 1
        })
    }
}

impl Times {
    fn push(&mut self, time: f64, timings: u32) {
        self.of_solutions.push(time);
        self.timings += timings;
    }
}

/// Whether a timed tile is one of Inductor's list. Imported files do not hold
/// ROCm's settings; those are then not compared.
fn is_the_default(timed: &Tile, default: &Tile) -> bool {
    launch_shape(timed) == launch_shape(default) && (timed.rocm.is_none() || timed.rocm == default.rocm)
}

/// The settings of a tile that Inductor's list fixes. The others follow from
/// the problem and from torch's settings.
fn launch_shape(tile: &Tile) -> [u32; 6] {
    [tile.block_m, tile.block_n, tile.block_k, tile.group_m, tile.num_stages, tile.num_warps]
}

#[cfg(test)]
mod tests {
    use diode_core::{ConfigDictionary, DType, Method, Op, ProblemFields, Solution, TimeColumn};
    use diode_formats::stored::{decode_columns, decode_configs};

    use super::*;
    use crate::solutions::encode;

    fn decoded(times: &[(Config, u64)]) -> DecodedSolution {
        let mut dictionary = ConfigDictionary::default();
        let solution = Solution {
            problem: problem(),
            method: Method::Unspecified,
            configs: times.iter().map(|(config, _)| dictionary.intern(*config)).collect(),
            times: TimeColumn::from_nanos(times.iter().map(|(_, time)| *time).collect()).unwrap(),
            minimum_ns: None,
            spread_ns: None,
            repeats: None,
            failures: Vec::new(),
        };
        let (list, columns) = encode(&solution, &dictionary);
        let configs = decode_configs(&list.bytes).unwrap();
        DecodedSolution::new(configs.into(), decode_columns(&columns).unwrap()).unwrap()
    }

    fn problem() -> Problem {
        Problem::new(ProblemFields::plain(Op::Mm, 1, 4096, 4096, 4096, DType::BFloat16)).unwrap()
    }

    fn tile(block_m: u32, stages: u32) -> Config {
        Config::Mm(Tile::new(block_m, 128, 64, stages, 4))
    }

    #[test]
    fn the_time_of_a_config_is_the_median_over_solutions() {
        let solutions = [
            decoded(&[(tile(128, 3), 200_000), (tile(64, 5), 190_000)]),
            decoded(&[(tile(128, 3), 210_000), (tile(128, 3), 230_000)]),
            decoded(&[(tile(128, 3), 900_000)]),
        ];
        let consensus = Consensus::of(&solutions);
        assert_eq!(consensus.timings, 5);
        let agreed = consensus.configs[1];
        assert_eq!((agreed.config, agreed.time.0, agreed.timings), (tile(128, 3), 220_000.0, 4));
    }

    #[test]
    fn the_entry_judges_the_best_against_roofline_and_defaults() {
        let hardware = diode_core::hardware::find("nvidia-h200").unwrap();
        // 128×128×64 s3 w4 is on Inductor's list, 64×128×64 s5 w4 is not.
        let consensus = Consensus::of(&[decoded(&[
            (tile(128, 3), 200_000),
            (tile(64, 5), 160_000),
            (Config::Library, 180_000),
        ])]);
        let entry = consensus.board_entry(&problem(), &hardware).unwrap();
        assert_eq!(entry.best, tile(64, 5));
        assert_eq!(entry.gain_over_defaults, Some(1.25));
        assert_eq!(entry.library_ns, Some(180_000.0));
        assert!((entry.tflops.unwrap() - 858.99).abs() < 0.01, "{:?}", entry.tflops);
        assert!((entry.roofline_share.unwrap() - 0.8677).abs() < 0.0001);
        assert_eq!(Consensus::of(&[decoded(&[])]).board_entry(&problem(), &hardware), None);
    }
}
