//! The times of every config of a view, by contributor.

use std::collections::BTreeMap;

use diode_api::Standing;
use diode_core::Config;
use diode_core::ids::AccountId;
use diode_core::stats::median;

use super::numbers::Numbers;
use crate::solutions::{DecodedSolution, StoredSolution};

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
