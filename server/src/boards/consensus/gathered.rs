//! The times of every config of a view, by contributor.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use diode_api::Standing;
use diode_core::Config;
use diode_core::ids::AccountId;
use diode_core::stats::median;

use crate::uploads::solutions::{DecodedSolution, StoredSolution};

/// A solution of a view: what was measured, who measured it, and whether it counts.
#[derive(Debug, Clone)]
pub(crate) struct ReadSolution {
    /// The number of the solution's row.
    pub(crate) number: i64,
    /// `None` stands for all that was sent without an account.
    pub(crate) contributor: Option<AccountId>,
    /// `false` if no upload that sent the solution counts.
    pub(crate) counts: bool,
    pub(crate) solution: DecodedSolution,
}

impl ReadSolution {
    pub(super) fn of((row, solution): (&StoredSolution, DecodedSolution)) -> Self {
        let counts = row.standing == Standing::Counts;
        Self { number: row.number, contributor: row.contributor.clone(), counts, solution }
    }
}

/// The time of one config in one solution. If the config was timed more than once, the median of its times.
#[derive(Clone, Copy, Default)]
pub(super) struct Sample {
    /// The place of the sample's solution in [`Gathered::sources`].
    source: u32,
    timings: u32,
    pub(super) time: f64,
}

/// The solution that a sample comes from.
#[derive(Clone, Copy)]
pub(super) struct Source {
    pub(super) number: i64,
    /// Contributors are numbered from 0, in the order in which they appear.
    pub(super) contributor: u32,
    pub(super) counts: bool,
}

/// The times of every config. The samples of one config stand together.
pub(super) struct Gathered<'n> {
    configs: &'n [Config],
    /// Where the samples of each config end.
    ends: Vec<usize>,
    samples: Vec<Sample>,
    pub(super) sources: Vec<Source>,
    pub(super) contributors: u32,
}

impl<'n> Gathered<'n> {
    pub(super) fn of(measured: &[ReadSolution], numbers: &'n mut Numbers) -> Self {
        numbers.make_room();
        for one in measured {
            numbers.add(one.solution.list());
        }
        let mut order: Vec<&ReadSolution> = measured.iter().collect();
        order.sort_by(|a, b| a.contributor.cmp(&b.contributor));
        let (mut sources, mut contributors) = (Vec::with_capacity(order.len()), 0);
        let mut before: Option<&Option<AccountId>> = None;
        let mut samples = Vec::with_capacity(order.iter().map(|one| one.solution.timed().len()).sum());
        for one in order {
            contributors += u32::from(before != Some(&one.contributor));
            before = Some(&one.contributor);
            add(numbers, &one.solution, sources.len() as u32, &mut samples);
            sources.push(Source { number: one.number, contributor: contributors - 1, counts: one.counts });
        }
        let (ends, samples) = by_config(&samples, numbers.configs().len());
        Self { configs: numbers.configs(), ends, samples, sources, contributors }
    }

    /// Every config that was timed, with its samples.
    pub(super) fn times(&self) -> impl Iterator<Item = (Config, &[Sample])> {
        let starts = std::iter::once(&0).chain(&self.ends);
        let samples = starts.zip(&self.ends).map(|(&start, &end)| &self.samples[start..end]);
        self.configs.iter().copied().zip(samples).filter(|(_, samples)| !samples.is_empty())
    }

    pub(super) fn source(&self, sample: &Sample) -> Source {
        self.sources[sample.source as usize]
    }

    /// The index of the sample's solution among the sources.
    pub(super) fn place_of_source(sample: &Sample) -> usize {
        sample.source as usize
    }
}

/// One time for each contributor: the median of the contributor's own times. So nobody counts for more by sending
/// more. The same `Combined` is used for all configs in turn, so that no memory is allocated for each.
#[derive(Default)]
pub(super) struct Combined {
    own: Vec<f64>,
    /// The times, with the numbers of the contributors.
    pub(super) times: Vec<(u32, f64)>,
    /// How many timings the times come from.
    pub(super) timings: u32,
}

impl Combined {
    /// Combines the samples of a config whose source is `wanted`.
    pub(super) fn set(
        &mut self,
        gathered: &Gathered<'_>,
        samples: &[Sample],
        wanted: impl Fn(Source) -> bool,
    ) {
        self.times.clear();
        self.timings = 0;
        let contributor = |sample: &Sample| gathered.source(sample).contributor;
        for run in samples.chunk_by(|a, b| contributor(a) == contributor(b)) {
            self.own.clear();
            for sample in run.iter().filter(|sample| wanted(gathered.source(sample))) {
                self.own.push(sample.time);
                self.timings += sample.timings;
            }
            self.times.extend(median(&mut self.own).map(|time| (contributor(&run[0]), time)));
        }
    }
}

/// Adds the samples of one solution, each with the number of its config.
fn add(numbers: &Numbers, solution: &DecodedSolution, source: u32, samples: &mut Vec<(u32, Sample)>) {
    let Some(list) = numbers.list(solution.list()) else { return };
    let timed = list.numbers.iter().zip(solution.timed().map(|(_, time)| time.0));
    if list.distinct {
        samples.extend(timed.map(|(&number, time)| (number, Sample { source, timings: 1, time })));
        return;
    }
    let mut repeats: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for (&number, time) in timed {
        repeats.entry(number).or_default().push(time);
    }
    samples.extend(repeats.into_iter().filter_map(|(number, mut repeats)| {
        let timings = repeats.len() as u32;
        Some((number, Sample { source, timings, time: median(&mut repeats)? }))
    }));
}

/// Sorts samples by config. Also returns where the samples of each config end.
fn by_config(samples: &[(u32, Sample)], configs: usize) -> (Vec<usize>, Vec<Sample>) {
    let mut ends = vec![0; configs];
    for (number, _) in samples {
        ends[*number as usize] += 1;
    }
    let mut sum = 0;
    for end in &mut ends {
        // At first, `ends` has the places where the samples of each config begin. Each sample that is placed below
        // moves its config's place on.
        (*end, sum) = (sum, sum + *end);
    }
    let mut sorted = vec![Sample::default(); samples.len()];
    for (number, sample) in samples {
        let place = &mut ends[*number as usize];
        sorted[*place] = *sample;
        *place += 1;
    }
    (ends, sorted)
}

/// With more configs than this, nothing is kept for the next view, because each view looks at all configs
/// that are kept.
const MAX_KEPT: usize = 1 << 14;

/// The configs of some views. Each has one number, even if several lists have it.
#[derive(Default)]
pub(crate) struct Numbers {
    configs: Vec<Config>,
    numbers: HashMap<Config, u32>,
    /// The lists by their address.
    lists: HashMap<usize, NumberedList>,
}

/// A list of configs, as numbers.
pub(super) struct NumberedList {
    /// The list is kept alive, so that no other list gets the same address.
    _list: Arc<[Config]>,
    pub(super) numbers: Vec<u32>,
    /// Whether no config occurs twice.
    pub(super) distinct: bool,
}

impl Numbers {
    /// Drops all lists and numbers if there are too many configs. Earlier numbers are then no longer valid.
    pub(super) fn make_room(&mut self) {
        if self.configs.len() > MAX_KEPT {
            *self = Self::default();
        }
    }

    /// Numbers a list, once.
    pub(super) fn add(&mut self, list: &Arc<[Config]>) {
        let address = address(list);
        if self.lists.contains_key(&address) {
            return;
        }
        let numbers: Vec<u32> = list.iter().map(|config| self.number(*config)).collect();
        let distinct = numbers.iter().collect::<HashSet<_>>().len() == numbers.len();
        self.lists.insert(address, NumberedList { _list: Arc::clone(list), numbers, distinct });
    }

    /// The numbers of a list that was added.
    pub(super) fn list(&self, list: &Arc<[Config]>) -> Option<&NumberedList> {
        self.lists.get(&address(list))
    }

    /// Every config, in the order of its number.
    pub(super) fn configs(&self) -> &[Config] {
        &self.configs
    }

    fn number(&mut self, config: Config) -> u32 {
        let configs = &mut self.configs;
        *self.numbers.entry(config).or_insert_with(|| {
            configs.push(config);
            configs.len() as u32 - 1
        })
    }
}

fn address(list: &Arc<[Config]>) -> usize {
    list.as_ptr() as usize
}

#[cfg(test)]
mod numbers_tests {
    use super::*;
    use crate::boards::consensus::tests::tile;

    #[test]
    fn a_config_has_one_number_in_all_lists() {
        let lists: [Arc<[Config]>; 3] = [
            [tile(128, 3), tile(64, 5)].into(),
            [tile(64, 5), Config::Library].into(),
            [tile(64, 5), tile(64, 5)].into(),
        ];
        let mut numbers = Numbers::default();
        for list in lists.iter().chain(&lists) {
            numbers.add(list);
        }
        let numbered = lists.each_ref().map(|list| {
            let list = numbers.list(list).unwrap();
            (list.numbers.clone(), list.distinct)
        });
        assert_eq!(numbered, [(vec![0, 1], true), (vec![1, 2], true), (vec![1, 1], false)]);
        assert_eq!(numbers.configs(), [tile(128, 3), tile(64, 5), Config::Library]);
    }

    #[test]
    fn what_is_kept_does_not_grow_for_ever() {
        let mut numbers = Numbers::default();
        let list: Arc<[Config]> =
            (0..=MAX_KEPT as u32).map(|k_split| Config::DecomposeK { k_split }).collect();
        numbers.add(&list);
        numbers.make_room();
        assert!(numbers.configs().is_empty() && numbers.list(&list).is_none());
        numbers.add(&list);
        assert_eq!(numbers.configs().len(), list.len());
    }
}
