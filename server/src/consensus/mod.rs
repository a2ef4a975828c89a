//! The consensus of a view: the time of every config over all its contributors.
//!
//! A contributor's own solutions are combined by their median first. The time of a config is the median
//! over the contributors that timed it, so nobody counts for more by sending more. Solutions of fenced
//! uploads do not count.

mod deviation;
mod gathered;

use std::collections::{BTreeMap, HashSet};

use diode_core::hardware::{Hardware, roofline};
use diode_core::ids::ProblemId;
use diode_core::space::{Space, SpaceName};
use diode_core::stats::median;
use diode_core::{Config, FailureReason, Nanos, Problem, Tflops, Tile};

pub(crate) use deviation::{Deviation, fence_reason, is_off};
use gathered::Gathered;
pub(crate) use gathered::Measured;

use crate::solutions::{ConfigLists, Damaged, StoredSolutions};

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
    /// Contributors that measured the problem.
    pub contributors: u64,
    /// Contributors that timed the best config.
    pub best_contributors: u64,
}

/// What the solutions of one view make together.
pub(crate) struct Computed {
    /// `None` if no config has a time that counts.
    pub(crate) entry: Option<BoardEntry>,
    /// Of those solutions that enough other contributors measured.
    pub(crate) deviations: Vec<Deviation>,
}

/// The board entry of one view and the deviations of its solutions: a function of the view's stored
/// solutions, its problem and its hardware, and of nothing else. Damaged solutions do not count.
/// Long work: not for an async thread.
pub(crate) fn compute(
    stored: &StoredSolutions,
    lists: &mut ConfigLists,
    problem: &Problem,
    hardware: &Hardware,
) -> Computed {
    let measured = readable(stored, lists);
    let gathered = Gathered::of(&measured);
    let consensus = Consensus::new(&gathered, &measured);
    Computed { entry: consensus.board_entry(problem, hardware), deviations: deviation::deviations(&gathered) }
}

/// The consensus of several problems on one hardware by one method.
pub(crate) struct ByProblem {
    pub(crate) consensuses: Vec<(Problem, Consensus)>,
    /// How much is too damaged to be in it.
    pub(crate) left_out: usize,
}

/// The solutions that can be read. The others are in the log, and `admin verify` lists them.
fn readable(stored: &StoredSolutions, lists: &mut ConfigLists) -> Vec<Measured> {
    let decoded = stored.decode_with(lists);
    tell_damaged(stored, &decoded.damaged);
    decoded.solutions.into_iter().map(Measured::of).collect()
}

fn tell_damaged(stored: &StoredSolutions, decoded: &[Damaged]) -> usize {
    for damaged in stored.damaged.iter().chain(decoded) {
        tracing::error!("left out of a consensus: {damaged}");
    }
    stored.damaged.len() + decoded.len()
}

/// The median time of one config.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct AgreedTime {
    pub(crate) config: Config,
    pub(crate) time: Nanos,
    /// The number of timings behind it.
    pub(crate) timings: u32,
    /// The contributors that it is the median over.
    pub(crate) contributors: u32,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Consensus {
    /// Every timed config once, fastest first; equals in the order of configs.
    pub(crate) configs: Vec<AgreedTime>,
    /// Configs that failed and that no solution has a time for.
    pub(crate) failures: BTreeMap<Config, FailureReason>,
    pub(crate) solutions: u64,
    pub(crate) contributors: u64,
    pub(crate) timings: u64,
}

impl Consensus {
    pub(crate) fn of_stored(stored: &StoredSolutions, lists: &mut ConfigLists) -> Self {
        Self::of(&readable(stored, lists))
    }

    /// Of each problem. Long work: not for an async thread.
    pub(crate) fn by_problem(stored: &StoredSolutions) -> ByProblem {
        let decoded = stored.decode();
        let left_out = tell_damaged(stored, &decoded.damaged);
        let mut measured: BTreeMap<&ProblemId, Vec<Measured>> = BTreeMap::new();
        for (row, solution) in decoded.solutions {
            measured.entry(&row.problem).or_default().push(Measured::of((row, solution)));
        }
        let consensus = |(id, measured): (&ProblemId, Vec<Measured>)| {
            Some((stored.problems.get(id)?.clone(), Self::of(&measured)))
        };
        ByProblem { consensuses: measured.into_iter().filter_map(consensus).collect(), left_out }
    }

    pub(crate) fn of(measured: &[Measured]) -> Self {
        Self::new(&Gathered::of(measured), measured)
    }

    fn new(gathered: &Gathered, measured: &[Measured]) -> Self {
        let mut configs = Vec::with_capacity(gathered.times.len());
        let (mut combined, mut of_contributors, mut timings) = (Vec::new(), Vec::new(), 0);
        for times in &gathered.times {
            let behind = gathered.combine(times, |source| source.counts, &mut combined);
            of_contributors.clear();
            of_contributors.extend(combined.iter().map(|(_, time)| *time));
            let contributors = of_contributors.len() as u32;
            if let Some(time) = median(&mut of_contributors) {
                let (config, time) = (times.config, Nanos(time));
                configs.push(AgreedTime { config, time, timings: behind, contributors });
                timings += u64::from(behind);
            }
        }
        configs.sort_by(|a, b| a.time.0.total_cmp(&b.time.0).then_with(|| a.config.cmp(&b.config)));
        let timed: HashSet<Config> = configs.iter().map(|agreed| agreed.config).collect();
        let counted = || measured.iter().filter(|measured| measured.counts);
        let failed = counted().flat_map(|measured| measured.solution.failed());
        let failures = failed.filter(|(config, _)| !timed.contains(config)).collect();
        let contributors = counted().map(|measured| &measured.contributor).collect::<HashSet<_>>().len();
        Self {
            configs,
            failures,
            solutions: counted().count() as u64,
            contributors: contributors as u64,
            timings,
        }
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
            contributors: self.contributors,
            best_contributors: u64::from(best.contributors),
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
    use diode_core::ids::AccountId;
    use diode_core::{ConfigDictionary, DType, Method, Op, ProblemFields, Solution, TimeColumn};
    use diode_formats::stored::{decode_columns, decode_configs};

    use super::*;
    use crate::solutions::{DecodedSolution, encode};

    fn by(contributor: &str, times: &[(Config, u64)]) -> Measured {
        let contributor = Some(AccountId::of(contributor.as_bytes()));
        Measured { number: 0, contributor, counts: true, solution: decoded(times) }
    }

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
    fn the_time_of_a_config_is_the_median_over_contributors() {
        let one = [
            by("a", &[(tile(128, 3), 200_000), (tile(64, 5), 190_000)]),
            by("b", &[(tile(128, 3), 210_000), (tile(128, 3), 230_000)]),
            by("c", &[(tile(128, 3), 900_000)]),
        ];
        // However often somebody sends the same, it counts once.
        let many = [one.to_vec(), vec![by("c", &[(tile(128, 3), 910_000)]); 50]].concat();
        for (measured, timings) in [(&one[..], 5), (&many, 55)] {
            let consensus = Consensus::of(measured);
            assert_eq!((consensus.timings, consensus.contributors), (timings, 3));
            let agreed = consensus.configs[1];
            assert_eq!((agreed.config, agreed.time.0), (tile(128, 3), 220_000.0));
            assert_eq!((consensus.configs[0].contributors, agreed.contributors), (1, 3));
        }
    }

    #[test]
    fn what_is_fenced_does_not_count_but_is_compared() {
        let config = tile(128, 3);
        let mut measured: Vec<Measured> = ["a", "b", "c", "d", "e"]
            .map(|name| by(name, &[(config, if name == "e" { 100_000 } else { 200_000 })]))
            .into();
        let deviations = deviation::deviations(&Gathered::of(&measured));
        let ratios: Vec<f64> = deviations.iter().map(|deviation| deviation.log_ratio).collect();
        let off = ratios.iter().filter(|ratio| **ratio != 0.0).collect::<Vec<_>>();
        assert!(
            ratios.len() == 5 && matches!(off[..], [ratio] if (ratio + 0.693).abs() < 1e-9),
            "{ratios:?}"
        );
        measured[4].counts = false;
        assert_eq!(deviation::deviations(&Gathered::of(&measured)), deviations);
        let consensus = Consensus::of(&measured);
        assert_eq!((consensus.solutions, consensus.contributors, consensus.timings), (4, 4, 4));
        assert_eq!(consensus.configs[0].time.0, 200_000.0);
    }

    #[test]
    fn the_entry_judges_the_best_against_roofline_and_defaults() {
        let hardware = diode_core::hardware::find("nvidia-h200").unwrap();
        // 128×128×64 s3 w4 is on Inductor's list, 64×128×64 s5 w4 is not.
        let consensus = Consensus::of(&[by(
            "a",
            &[(tile(128, 3), 200_000), (tile(64, 5), 160_000), (Config::Library, 180_000)],
        )]);
        let entry = consensus.board_entry(&problem(), &hardware).unwrap();
        assert_eq!(entry.best, tile(64, 5));
        assert_eq!(entry.gain_over_defaults, Some(1.25));
        assert_eq!(entry.library_ns, Some(180_000.0));
        assert!((entry.tflops.unwrap() - 858.99).abs() < 0.01, "{:?}", entry.tflops);
        assert!((entry.roofline_share.unwrap() - 0.8677).abs() < 0.0001);
        assert_eq!(Consensus::of(&[by("a", &[])]).board_entry(&problem(), &hardware), None);
    }
}
