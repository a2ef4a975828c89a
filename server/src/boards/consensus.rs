//! The consensus of a view: the time of every config over all its contributors.
//!
//! First, the solutions of each contributor are combined by their median. The time of a config is then what the parties
//! agree on (see [`parties`]), so nobody counts for more by sending more. Solutions of fenced or quarantined uploads do
//! not count.

mod entry;
mod gathered;
mod parties;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use diode_core::hardware::Hardware;
use diode_core::ids::{AccountId, ProblemId};
use diode_core::stats::median;
use diode_core::{Config, FailureReason, Nanos, Problem};

use crate::boards::consensus::gathered::{Combined, Gathered, Numbers};
use crate::boards::consensus::parties::{Agreed, Parties};
use crate::uploads::solutions::{ConfigLists, Damaged, DecodedSolution, StoredSolutions};

pub(crate) use crate::boards::consensus::entry::{BoardEntry, ENTRY_VERSION};
pub(crate) use crate::boards::consensus::gathered::{Deviation, fence_reason, is_off};
pub(crate) use crate::boards::consensus::parties::{CONFIRMS, TOGETHER};

/// What is computed from the solutions of one view.
pub(crate) struct Computed {
    /// `None` if no config has a time that counts.
    pub(crate) entry: Option<BoardEntry>,
    /// The deviations of the solutions that enough other contributors measured.
    pub(crate) deviations: Vec<Deviation>,
}

/// The board entry of one view, and the deviations of its solutions. Both depend only on the view's stored
/// solutions, its problem and its hardware. Damaged solutions do not count. This takes long, so it must not run
/// on an async thread.
pub(crate) fn compute(
    stored: &StoredSolutions,
    learnt: &mut ConfigCache,
    problem: &Problem,
    hardware: &Hardware,
) -> Computed {
    let measured = readable(stored, &mut learnt.lists);
    let gathered = Gathered::of(&measured, &mut learnt.numbers);
    let consensus = Consensus::new(&gathered, &measured);
    Computed { entry: consensus.board_entry(problem, hardware), deviations: gathered.deviations() }
}

/// The consensus of several problems on one hardware by one method.
pub(crate) struct ByProblem {
    pub(crate) consensuses: Vec<(Problem, Consensus)>,
    /// How many rows are damaged and therefore left out.
    pub(crate) left_out: usize,
}

/// The solutions that can be read. The log names the others, and `admin verify` lists them.
fn readable(stored: &StoredSolutions, lists: &mut ConfigLists) -> Vec<DecodedSolution> {
    let decoded = stored.decode_with(lists);
    tell_damaged(stored, &decoded.damaged);
    decoded.solutions
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
    /// How many timings the time comes from.
    pub(crate) timings: u32,
    /// How many contributors timed it.
    pub(crate) contributors: u32,
    /// How many of them confirm the time.
    pub(crate) confirmed_by: u32,
    /// Whether it may be the best of a board or a table.
    pub(crate) leads: bool,
}

/// The fastest config of a group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Fastest {
    pub(crate) agreed: AgreedTime,
    /// The interquartile range of the repeats, divided by the time. It is the median over the solutions that
    /// state it.
    pub(crate) spread: Option<f64>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Consensus {
    /// Every timed config once, the fastest first. Configs with equal times have the order of configs.
    pub(crate) configs: Vec<AgreedTime>,
    /// The fastest Triton config.
    pub(crate) triton: Option<Fastest>,
    /// The library. If it was timed with and without rounding to TF32, the one that computes what the fastest Triton
    /// config does.
    pub(crate) library: Option<Fastest>,
    /// Configs that failed and have no time in any solution.
    pub(crate) failures: BTreeMap<Config, FailureReason>,
    pub(crate) solutions: u64,
    pub(crate) contributors: u64,
    pub(crate) timings: u64,
}

impl Consensus {
    /// The configs that may be the best, the fastest first.
    pub(crate) fn leading(&self) -> impl Iterator<Item = &AgreedTime> {
        self.configs.iter().filter(|agreed| agreed.leads)
    }

    pub(crate) fn of_stored(stored: &StoredSolutions, learnt: &mut ConfigCache) -> Self {
        let measured = readable(stored, &mut learnt.lists);
        Self::new(&Gathered::of(&measured, &mut learnt.numbers), &measured)
    }

    /// The consensus of one view, and the repeats of each config.
    pub(crate) fn with_repeats(
        stored: &StoredSolutions,
        learnt: &mut ConfigCache,
    ) -> (Self, HashMap<Config, Repeats>) {
        let measured = readable(stored, &mut learnt.lists);
        let consensus = Self::new(&Gathered::of(&measured, &mut learnt.numbers), &measured);
        (consensus, repeats(&measured))
    }

    /// The consensus of each problem. This takes long, so it must not run on an async thread.
    pub(crate) fn by_problem(stored: &StoredSolutions) -> ByProblem {
        let decoded = stored.decode();
        let left_out = tell_damaged(stored, &decoded.damaged);
        let mut measured: BTreeMap<ProblemId, Vec<DecodedSolution>> = BTreeMap::new();
        for solution in decoded.solutions {
            measured.entry(solution.problem.clone()).or_default().push(solution);
        }
        let mut numbers = Numbers::default();
        let consensus = |(id, measured): (ProblemId, Vec<DecodedSolution>)| {
            let gathered = Gathered::of(&measured, &mut numbers);
            Some((stored.problems.get(&id)?.clone(), Self::new(&gathered, &measured)))
        };
        ByProblem { consensuses: measured.into_iter().filter_map(consensus).collect(), left_out }
    }

    fn new(gathered: &Gathered<'_>, measured: &[DecodedSolution]) -> Self {
        let mut configs = Vec::new();
        let parties = Parties::of(gathered, true, |_| false);
        let (mut combined, mut by_party, mut timings) = (Combined::default(), Vec::new(), 0);
        for (config, samples) in gathered.times() {
            combined.set(gathered, samples, |source| source.counts);
            if let Some(Agreed { time, confirmed_by, leads }) = parties.agree(&combined.times, &mut by_party)
            {
                let contributors = combined.times.len() as u32;
                let (time, behind) = (Nanos(time), combined.timings);
                configs.push(AgreedTime { config, time, timings: behind, contributors, confirmed_by, leads });
                timings += u64::from(behind);
            }
        }
        // No two entries have the same config, so the order is always the same.
        configs.sort_unstable_by(|a, b| a.time.0.total_cmp(&b.time.0).then_with(|| a.config.cmp(&b.config)));
        let counted = || measured.iter().filter(|measured| measured.counts);
        let mut failures: BTreeMap<Config, FailureReason> =
            counted().flat_map(|measured| measured.failed()).collect();
        if !failures.is_empty() {
            let timed: HashSet<Config> = configs.iter().map(|agreed| agreed.config).collect();
            failures.retain(|config, _| !timed.contains(config));
        }
        let fastest = |is_meant: &dyn Fn(&Config) -> bool| {
            let agreed = *configs.iter().find(|agreed| agreed.leads && is_meant(&agreed.config))?;
            let spreads = counted().filter_map(|measured| measured.spread(&agreed.config));
            Some(Fastest { agreed, spread: median(&mut spreads.collect::<Vec<_>>()) })
        };
        let triton = fastest(&|config| !config.is_library());
        let rounds = triton.is_some_and(|triton| triton.agreed.config.rounds_to_tf32());
        let library =
            fastest(&|config| *config == Config::library(rounds)).or_else(|| fastest(&Config::is_library));
        let contributors = counted().map(|measured| &measured.contributor).collect::<HashSet<_>>().len();
        Self {
            configs,
            triton,
            library,
            failures,
            solutions: counted().count() as u64,
            contributors: contributors as u64,
            timings,
        }
    }
}

/// The time of a config, for a training.
pub(crate) struct Heard {
    pub(crate) config: Config,
    /// In nanoseconds.
    pub(crate) time: f64,
    /// One who timed it: the first party's contributor, if it did.
    pub(crate) by: Option<AccountId>,
}

/// What the contributors of a view say, for a training.
pub(crate) struct Learnable {
    /// The times of the first party, and those that several confirm.
    pub(crate) leading: Vec<Heard>,
    /// What one party alone has seen.
    pub(crate) alone: Vec<Heard>,
    /// Whether parties confirm each other.
    pub(crate) confirmed: bool,
    /// Whether the operator vouches for the first party, and its account.
    pub(crate) first: (bool, Option<AccountId>),
}

/// `joins` says whether accounts are one party that appeared together with a first contributor whose account is of this
/// time. Takes long, so it must not run on an async thread.
pub(crate) fn learnable(measured: &[DecodedSolution], joins: impl Fn(Option<i64>) -> bool) -> Learnable {
    let mut numbers = Numbers::default();
    let gathered = Gathered::of(measured, &mut numbers);
    let parties = Parties::of(&gathered, true, |first| joins(first.since));
    let contributor = |number: u32| &gathered.contributors[number as usize];
    let first = gathered.contributors.iter().filter(|one| one.first.is_some());
    let first = first.min_by_key(|one| (!one.vouched, one.first));
    let mut learnable = Learnable {
        leading: Vec::new(),
        alone: Vec::new(),
        confirmed: false,
        first: first.map_or((false, None), |first| (first.vouched, first.account.clone())),
    };
    let (mut combined, mut by_party) = (Combined::default(), Vec::new());
    for (config, samples) in gathered.times() {
        combined.set(&gathered, samples, |source| source.counts);
        let Some(agreed) = parties.agree(&combined.times, &mut by_party) else { continue };
        let one = combined.times.iter().map(|(number, _)| *number).min_by_key(|one| parties.party(*one));
        let by = one.and_then(|number| contributor(number).account.clone());
        learnable.confirmed |= agreed.confirmed_by > 1;
        let into = if agreed.leads { &mut learnable.leading } else { &mut learnable.alone };
        into.push(Heard { config, time: agreed.time, by });
    }
    learnable
}

/// A cache with more configs than this is not kept. So many configs take some megabytes, however many lists they are
/// in.
const MAX_KEPT: usize = 1 << 16;

/// How many caches are kept: about one for each core. If more requests compute at once, the others begin without a
/// cache.
const KEPT: usize = 4;

#[derive(Default)]
pub(crate) struct ConfigCache {
    lists: ConfigLists,
    numbers: Numbers,
}

/// Caches of earlier requests, for later requests. Nearly all views share a few lists of over a thousand configs.
/// Reading and numbering a list takes longer than reading the times of one view.
#[derive(Clone, Default)]
pub(crate) struct ConfigCaches(Arc<Mutex<Vec<ConfigCache>>>);

impl ConfigCaches {
    /// Runs `work` with the cache of an earlier request, if one is free. Keeps the cache for a later request.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut ConfigCache) -> T) -> T {
        let mut learnt = self.all(|kept| kept.pop()).unwrap_or_default();
        let done = work(&mut learnt);
        if learnt.lists.configs() <= MAX_KEPT {
            self.all(|kept| {
                if kept.len() < KEPT {
                    kept.push(learnt);
                }
            });
        }
        done
    }

    fn all<T>(&self, use_it: impl FnOnce(&mut Vec<ConfigCache>) -> T) -> T {
        use_it(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Spreads are rounded to four decimals. More would be noise.
const DIGITS: f64 = 1e4;

/// The repeats of one config, over the solutions of a view that count.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Repeats {
    /// The interquartile range of the repeats, divided by the time. It is the median over the solutions that
    /// state it.
    pub(crate) spread: Option<f64>,
    /// The number of runs, summed over the solutions that state it.
    pub(crate) number: Option<u64>,
}

#[derive(Default)]
struct Known {
    spreads: Vec<f64>,
    number: Option<u64>,
}

fn repeats(measured: &[DecodedSolution]) -> HashMap<Config, Repeats> {
    let mut known: HashMap<Config, Known> = HashMap::new();
    for one in measured.iter().filter(|one| one.counts && one.knows_repeats()) {
        for (config, spread, repeats) in one.repeats() {
            let known = known.entry(config).or_default();
            // A single run has no spread. Old databases may have times of zero, whose spread is not finite.
            known.spreads.extend(spread.filter(|spread| spread.is_finite() && repeats != Some(1)));
            if let Some(repeats) = repeats {
                known.number = Some(known.number.unwrap_or(0) + u64::from(repeats));
            }
        }
    }
    let repeats = |Known { mut spreads, number }: Known| {
        let spread = median(&mut spreads).map(|spread| (spread * DIGITS).round() / DIGITS);
        Repeats { spread, number }
    };
    known.into_iter().map(|(config, known)| (config, repeats(known))).collect()
}

#[cfg(test)]
mod tests {
    use diode_api::Standing;
    use diode_core::ids::Digest;
    use diode_core::{ConfigDictionary, DType, Method, Op, ProblemFields, Solution, Tile, TimeColumn};

    use super::*;
    use crate::uploads::solutions::{Encoder, StoredSolution};

    pub(super) fn by(contributor: &str, times: &[(Config, u64)]) -> DecodedSolution {
        let contributor = Some(AccountId::of(contributor.as_bytes()));
        let mut solution = stored(times).decode().solutions.pop().unwrap();
        solution.contributor = contributor;
        solution
    }

    impl Consensus {
        pub(super) fn of(measured: &[DecodedSolution]) -> Self {
            Self::new(&Gathered::of(measured, &mut Numbers::default()), measured)
        }
    }

    pub(super) fn stored(times: &[(Config, u64)]) -> StoredSolutions {
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
        let mut encoder = Encoder::new(&dictionary);
        let (list, _, columns) = encoder.encode(&solution);
        let lists = [list.clone()];
        let row = StoredSolution {
            number: 0,
            digest: Digest::of(b"solution"),
            hardware: "nvidia-h200".parse().unwrap(),
            problem: solution.problem.id(),
            method: solution.method,
            contributor: None,
            vouched: false,
            since: None,
            standing: Standing::Counts,
            config_list: lists[0].0.clone(),
            columns,
            unpacked: None,
            timings: times.len() as u64,
            failures: 0,
            best_us: None,
        };
        StoredSolutions { solutions: vec![row], config_lists: lists.into(), ..StoredSolutions::default() }
    }

    pub(super) fn problem() -> Problem {
        Problem::new(ProblemFields::plain(Op::Mm, 1, 4096, 4096, 4096, DType::BFloat16)).unwrap()
    }

    pub(super) fn tile(block_m: u32, stages: u32) -> Config {
        Config::Mm(Tile::new(block_m, 128, 64, stages, 4))
    }

    fn deviations_of(measured: &[DecodedSolution]) -> Vec<Deviation> {
        Gathered::of(measured, &mut Numbers::default()).deviations()
    }

    #[test]
    fn the_time_of_a_config_is_the_median_over_contributors() {
        let one = [
            by("a", &[(tile(128, 3), 200_000), (tile(64, 5), 190_000)]),
            by("b", &[(tile(128, 3), 210_000), (tile(128, 3), 230_000)]),
            by("c", &[(tile(128, 3), 900_000)]),
        ];
        // A contributor counts once, however often it sends the same.
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
        let mut measured: Vec<DecodedSolution> = ["a", "b", "c", "d", "e"]
            .map(|name| by(name, &[(config, if name == "e" { 100_000 } else { 200_000 })]))
            .into();
        let deviations = deviations_of(&measured);
        let ratios: Vec<f64> = deviations.iter().map(|deviation| deviation.log_ratio).collect();
        let off = ratios.iter().filter(|ratio| **ratio != 0.0).collect::<Vec<_>>();
        assert!(
            ratios.len() == 5 && matches!(off[..], [ratio] if (ratio + 0.693).abs() < 1e-9),
            "{ratios:?}"
        );
        measured[4].counts = false;
        assert_eq!(deviations_of(&measured), deviations);
        let consensus = Consensus::of(&measured);
        assert_eq!((consensus.solutions, consensus.contributors, consensus.timings), (4, 4, 4));
        assert_eq!(consensus.configs[0].time.0, 200_000.0);
    }
}

#[cfg(test)]
mod consensus_config_cache_tests {
    use diode_core::{Config, hardware};

    use super::*;
    use crate::boards::consensus::{Computed, Consensus, compute};
    use tests::{problem, stored, tile};

    #[test]
    fn what_is_learnt_changes_nothing_and_does_not_grow_for_ever() {
        let (config_caches, h200) = (ConfigCaches::default(), hardware::find("nvidia-h200").unwrap());
        let few = stored(&[(tile(64, 5), 190_000), (tile(128, 3), 200_000)]);
        let others = stored(&[(tile(32, 2), 170_000), (tile(128, 3), 210_000)]);
        for solutions in [&few, &others, &few] {
            let fresh = Consensus::of_stored(solutions, &mut ConfigCache::default());
            assert_eq!(config_caches.with(|learnt| Consensus::of_stored(solutions, learnt)), fresh);
            let Computed { entry, .. } =
                config_caches.with(|learnt| compute(solutions, learnt, &problem(), &h200));
            assert_eq!(entry, fresh.board_entry(&problem(), &h200));
        }
        assert_eq!(config_caches.with(|learnt| learnt.lists.configs()), 4);
        let split = |k_split| (Config::DecomposeK { k_split }, 100_000);
        let many: Vec<_> = (2..=MAX_KEPT as u32 / 8).map(split).collect();
        for shift in 0..9 {
            config_caches.with(|learnt| Consensus::of_stored(&stored(&many[shift..]), learnt));
        }
        assert_eq!(config_caches.with(|learnt| learnt.lists.configs()), 0);
    }
}
