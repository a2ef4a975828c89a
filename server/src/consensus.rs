//! The consensus of a view: the time of every config over all its solutions.
//!
//! The time of a config is the median over the solutions that timed it, so one
//! odd upload among several cannot move a leaderboard far.

use std::collections::{BTreeMap, HashMap};

use diode_core::hardware::{Hardware, roofline};
use diode_core::ids::ProblemId;
use diode_core::space::{Space, SpaceName};
use diode_core::stats::median;
use diode_core::{Config, FailureReason, Nanos, Problem, Tflops, Tile};

use crate::solutions::{ConfigLists, Damaged, DecodedSolution, StoredSolutions};

/// The summary of a view that leaderboards read.
#[derive(Debug, Clone, PartialEq)]
pub struct BoardEntry {
    pub best: Config,
    pub best_ns: f64,
    pub tflops: f64,
    pub roofline_share: Option<f64>,
    pub gain_over_defaults: Option<f64>,
    pub library_ns: Option<f64>,
    pub configs: u64,
    pub timings: u64,
    pub solutions: u64,
}

/// The board entry of one view: a function of the view's stored solutions, its
/// problem and its hardware, and of nothing else. `None` if no config has a
/// time. Long work: not for an async thread.
pub(crate) fn board_entry(
    stored: &StoredSolutions,
    lists: &mut ConfigLists,
    problem: &ProblemId,
    hardware: &Hardware,
) -> Result<Option<BoardEntry>, Damaged> {
    let Some(problem) = stored.problems.get(problem) else { return Ok(None) };
    let solutions = stored.decode_with(lists)?;
    Ok(Consensus::of(&solutions).board_entry(problem, hardware))
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
    pub(crate) fn of(solutions: &[DecodedSolution]) -> Self {
        let mut times: HashMap<Config, Vec<f64>> = HashMap::new();
        let mut counts: HashMap<Config, u32> = HashMap::new();
        for solution in solutions {
            let mut own: HashMap<Config, Vec<f64>> = HashMap::with_capacity(solution.timed().len());
            for (config, time) in solution.timed() {
                own.entry(config).or_default().push(time.0);
            }
            for (config, mut repeats) in own {
                *counts.entry(config).or_default() += repeats.len() as u32;
                times.entry(config).or_default().extend(median(&mut repeats));
            }
        }
        let mut configs: Vec<AgreedTime> = times
            .into_iter()
            .filter_map(|(config, mut times)| {
                let time = Nanos(median(&mut times)?);
                Some(AgreedTime { config, time, timings: counts[&config] })
            })
            .collect();
        configs.sort_by(|a, b| a.time.0.total_cmp(&b.time.0).then_with(|| a.config.cmp(&b.config)));
        let failed = solutions.iter().flat_map(DecodedSolution::failed);
        Self {
            failures: failed.filter(|(config, _)| !counts.contains_key(config)).collect(),
            solutions: solutions.len() as u64,
            timings: counts.values().map(|&n| u64::from(n)).sum(),
            configs,
        }
    }

    /// `None` if no config has a time.
    pub(crate) fn board_entry(&self, problem: &Problem, hardware: &Hardware) -> Option<BoardEntry> {
        let best = self.configs.first()?;
        Some(BoardEntry {
            best: best.config,
            best_ns: best.time.0,
            tflops: Tflops::from_work(problem.flops(), best.time.micros()).0,
            roofline_share: self.roofline(problem, hardware).map(|roof| roof / best.time.0),
            gain_over_defaults: self.best_default(problem, hardware).map(|time| time.0 / best.time.0),
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
        assert!((entry.tflops - 858.99).abs() < 0.01, "{}", entry.tflops);
        assert!((entry.roofline_share.unwrap() - 0.8677).abs() < 0.0001);
        assert_eq!(Consensus::of(&[decoded(&[])]).board_entry(&problem(), &hardware), None);
    }
}
