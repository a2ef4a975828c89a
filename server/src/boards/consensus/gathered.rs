//! The times of every config of a view, by contributor, and how far solutions lie from those of other contributors.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use diode_core::Config;
use diode_core::ids::AccountId;
use diode_core::stats::median;

use crate::boards::consensus::parties::{Contributor, Parties};
use crate::uploads::solutions::DecodedSolution;

/// With fewer other contributors, the server cannot tell who is mistaken.
const MIN_OTHERS: usize = 3;

/// At least three quarters of the other contributors must agree. Then two groups of contributors that disagree
/// are never both fenced: each group would have to be three quarters of the other contributors.
const AGREEING: (usize, usize) = (3, 4);

/// Times that differ by at most this factor agree. Clocks, power limits and drivers explain such differences.
const AGREEMENT: f64 = 1.25;

/// Deviations are rounded to a thousandth, so that smaller changes cause no write.
const STEPS: f64 = 1e3;

/// The deviation of one solution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Deviation {
    /// The number of the solution's row.
    pub(crate) number: i64,
    /// The median, over the solution's configs, of the logarithm of (its time / the median of the others'
    /// times).
    pub(crate) log_ratio: f64,
}

/// Whether an upload is fenced for its deviation.
pub(crate) fn is_off(log_ratio: f64) -> bool {
    log_ratio.abs() > AGREEMENT.ln()
}

/// The reason of a fence, as the contributor reads it.
pub(crate) fn fence_reason(log_ratio: f64, problems: u64) -> String {
    format!(
        "its times are {:.2} times those of the other contributors (median over {problems} problems), \
         expected at most {AGREEMENT} times more or less",
        log_ratio.exp()
    )
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

/// Whose a solution is. What the operator vouches for is another contributor's than what an account sends beside it:
/// without an account, anybody may have sent that.
fn whose(solution: &DecodedSolution) -> (&Option<AccountId>, bool) {
    (&solution.contributor, solution.vouched)
}

/// The times of every config. The samples of one config stand together.
pub(super) struct Gathered<'n> {
    configs: &'n [Config],
    /// Where the samples of each config end.
    ends: Vec<usize>,
    samples: Vec<Sample>,
    pub(super) sources: Vec<Source>,
    pub(super) contributors: Vec<Contributor>,
}

impl<'n> Gathered<'n> {
    pub(super) fn of(measured: &[DecodedSolution], numbers: &'n mut Numbers) -> Self {
        numbers.make_room();
        for one in measured {
            numbers.add(one.list());
        }
        let mut order: Vec<&DecodedSolution> = measured.iter().collect();
        order.sort_by(|a, b| whose(a).cmp(&whose(b)));
        let (mut sources, mut contributors) = (Vec::with_capacity(order.len()), Vec::new());
        let mut before = None;
        let mut samples = Vec::with_capacity(order.iter().map(|one| one.timed().len()).sum());
        for one in order {
            if before != Some(whose(one)) {
                let since = one.since.filter(|_| !one.vouched);
                let (vouched, account) = (one.vouched, one.contributor.clone());
                contributors.push(Contributor { vouched, since, account, first: None, first_of_all: None });
            }
            before = Some(whose(one));
            add(numbers, one, sources.len() as u32, &mut samples);
            let contributor = contributors.len() as u32 - 1;
            if let Some(own) = contributors.last_mut()
                && one.timed().len() > 0
            {
                let earlier = |first: Option<i64>| Some(first.map_or(one.number, |it| it.min(one.number)));
                own.first_of_all = earlier(own.first_of_all);
                if one.counts {
                    own.first = earlier(own.first);
                }
            }
            sources.push(Source { number: one.number, contributor, counts: one.counts });
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

    /// The deviations of the solutions that enough others measured. Each party counts once among the others, even if it is
    /// fenced, and nothing that the operator vouches for has a deviation; where they vouch for all, each contributor counts. So deviations depend only on what was measured, and not on the order in which it was
    /// sent.
    pub(super) fn deviations(&self) -> Vec<Deviation> {
        if self.contributors.len() <= MIN_OTHERS {
            return Vec::new();
        }
        let parties =
            self.contributors.iter().any(|one| !one.vouched).then(|| Parties::of(self, false, |_| false));
        let mut by_party = Vec::new();
        let mut logs: Vec<Vec<f64>> = vec![Vec::new(); self.sources.len()];
        let (mut combined, mut medians) = (Combined::default(), vec![None; self.contributors.len()]);
        for (_, samples) in self.times() {
            combined.set(self, samples, |_| true);
            if let Some(parties) = &parties {
                let (times, _) = parties.times(&combined.times, &mut by_party);
                if times.len() > MIN_OTHERS {
                    medians_of_others(&times, &mut medians);
                    let others = |contributor: u32| {
                        let is_judged = !self.contributors[contributor as usize].vouched;
                        medians[parties.party(contributor) as usize].filter(|_| is_judged)
                    };
                    add_logs(self, samples, others, &mut logs);
                }
            } else if combined.times.len() > MIN_OTHERS {
                medians_of_others(&combined.times, &mut medians);
                add_logs(self, samples, |contributor| medians[contributor as usize], &mut logs);
            }
        }
        let deviation = |(source, mut logs): (&Source, Vec<f64>)| {
            let log_ratio = (median(&mut logs)? * STEPS).round() / STEPS;
            Some(Deviation { number: source.number, log_ratio })
        };
        self.sources.iter().zip(logs).filter_map(deviation).collect()
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

fn add_logs(
    gathered: &Gathered<'_>,
    samples: &[Sample],
    others: impl Fn(u32) -> Option<f64>,
    logs: &mut [Vec<f64>],
) {
    for sample in samples {
        if let Some(others) = others(gathered.source(sample).contributor) {
            logs[sample.source as usize].push((sample.time / others).ln());
        }
    }
}

/// For each contributor: the median time of the others, if enough of the others are near this median.
fn medians_of_others(combined: &[(u32, f64)], medians: &mut [Option<f64>]) {
    let mut sorted: Vec<f64> = combined.iter().map(|(_, time)| *time).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let others = sorted.len() - 1;
    let within = |low: f64, high: f64| {
        sorted.partition_point(|time| *time <= high) - sorted.partition_point(|time| *time < low)
    };
    medians.fill(None);
    for &(contributor, own) in combined {
        let place = sorted.partition_point(|time| *time < own);
        let other = |at: usize| sorted[at + usize::from(at >= place)];
        let median = f64::midpoint(other((others - 1) / 2), other(others / 2));
        let (low, high) = (median / AGREEMENT, median * AGREEMENT);
        let agreeing = within(low, high) - usize::from((low..=high).contains(&own));
        let enough = agreeing * AGREEING.1 >= others * AGREEING.0;
        medians[contributor as usize] = enough.then_some(median);
    }
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

#[cfg(test)]
mod deviation_tests {
    use super::*;

    fn medians(times: &[f64]) -> Vec<Option<f64>> {
        let combined: Vec<(u32, f64)> = (0..).zip(times.iter().copied()).collect();
        let mut medians = vec![None; times.len()];
        medians_of_others(&combined, &mut medians);
        medians
    }

    #[test]
    fn others_count_only_if_they_agree() {
        // One of five is off. Of each honest contributor's four others, three agree, which is enough.
        assert_eq!(medians(&[1.0, 1.0, 1.0, 1.0, 0.5]), [Some(1.0); 5]);
        // Two of five state the same wrong time. The four others of each honest contributor are two against
        // two, so honest contributors are not judged.
        let two = medians(&[1.0, 1.0, 1.0, 0.5, 0.5]);
        assert_eq!(two, [None, None, None, Some(1.0), Some(1.0)]);
        assert_eq!(medians(&[1.0, 1.0, 2.0, 2.0]), [None; 4]);
        assert_eq!(medians(&[1.0, 1.0, 1.0, 2.0, 2.0, 2.0]), [None; 6]);
        // The median of an even number of times is the mean of the middle two.
        assert_eq!(medians(&[1.0, 1.1, 1.2, 1.3, 1.05])[0], Some(1.15));
    }

    #[test]
    fn two_groups_are_never_both_judged_by_each_other() {
        for (few, many) in (1..8).flat_map(|few| (1..8).map(move |many| (few, many))) {
            if few + many <= MIN_OTHERS {
                continue;
            }
            let times: Vec<f64> = [vec![1.0; few], vec![2.0; many]].concat();
            let medians = medians(&times);
            let off = |at: usize| medians[at].is_some_and(|others| others != times[at]);
            assert!(!(off(0) && off(few + many - 1)), "{few} and {many}");
        }
    }
}
