//! The times of every config of a view, by contributor.

use std::collections::{BTreeMap, HashMap, HashSet};

use diode_core::Config;
use diode_core::api::Standing;
use diode_core::ids::AccountId;
use diode_core::stats::median;

use crate::solutions::{DecodedSolution, StoredSolution};

/// A solution of a view: what was measured, by whom, and whether it counts.
#[derive(Debug, Clone)]
pub(crate) struct Measured {
    /// The number of its row.
    pub(crate) number: i64,
    /// `None` is the one contributor without an account.
    pub(crate) contributor: Option<AccountId>,
    /// `false` if all uploads that sent it are fenced.
    pub(crate) counts: bool,
    pub(crate) solution: DecodedSolution,
}

impl Measured {
    pub(super) fn of((row, solution): (&StoredSolution, DecodedSolution)) -> Self {
        let counts = row.standing == Standing::Counts;
        Self { number: row.number, contributor: row.contributor.clone(), counts, solution }
    }
}

/// The time of one config in one solution: its median, if it was timed more than once.
#[derive(Clone, Copy)]
pub(super) struct Sample {
    /// The place of its solution in [`Gathered::sources`].
    source: u32,
    pub(super) time: f64,
    timings: u32,
}

/// What a sample comes from.
#[derive(Clone, Copy)]
pub(super) struct Source {
    pub(super) number: i64,
    /// Contributors are numbered from 0 as they come.
    pub(super) contributor: u32,
    pub(super) counts: bool,
}

/// The samples of one config; those of one contributor stand together.
pub(super) struct Times {
    pub(super) config: Config,
    pub(super) samples: Vec<Sample>,
}

/// The times of every config. Solutions share config lists, so each list is looked up once, and each
/// further solution only appends numbers.
#[derive(Default)]
pub(super) struct Gathered {
    pub(super) times: Vec<Times>,
    pub(super) sources: Vec<Source>,
    pub(super) contributors: u32,
    places: HashMap<Config, u32>,
    /// By the address of the list, which its solutions keep alive: the places of its configs, and
    /// whether each is there once.
    lists: HashMap<*const Config, (Vec<u32>, bool)>,
}

impl Gathered {
    pub(super) fn of(measured: &[Measured]) -> Self {
        let mut gathered = Self::default();
        let mut order: Vec<&Measured> = measured.iter().collect();
        order.sort_by(|a, b| a.contributor.cmp(&b.contributor));
        let mut before: Option<&Option<AccountId>> = None;
        for one in order {
            gathered.contributors += u32::from(before != Some(&one.contributor));
            before = Some(&one.contributor);
            let (number, counts) = (one.number, one.counts);
            gathered.sources.push(Source { number, contributor: gathered.contributors - 1, counts });
            gathered.add(&one.solution);
        }
        gathered
    }

    pub(super) fn source(&self, sample: &Sample) -> Source {
        self.sources[sample.source as usize]
    }

    /// The place of the sample's solution among the sources.
    pub(super) fn place_of_source(sample: &Sample) -> usize {
        sample.source as usize
    }

    /// One time for each contributor whose samples are `wanted`: the median of those. So nobody counts
    /// more for sending more.
    pub(super) fn combine(
        &self,
        times: &Times,
        wanted: impl Fn(Source) -> bool,
        combined: &mut Vec<(u32, f64)>,
    ) -> u32 {
        combined.clear();
        let (mut own, mut timings) = (Vec::new(), 0);
        for run in times.samples.chunk_by(|a, b| self.source(a).contributor == self.source(b).contributor) {
            own.clear();
            for sample in run.iter().filter(|sample| wanted(self.source(sample))) {
                own.push(sample.time);
                timings += sample.timings;
            }
            combined.extend(median(&mut own).map(|time| (self.source(&run[0]).contributor, time)));
        }
        timings
    }

    fn add(&mut self, solution: &DecodedSolution) {
        let source = self.sources.len() as u32 - 1;
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
                self.times[place as usize].samples.push(Sample { source, time, timings: 1 });
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
                self.times[place as usize].samples.push(Sample { source, time, timings });
            }
        }
    }

    fn place(&mut self, config: Config) -> u32 {
        let times = &mut self.times;
        *self.places.entry(config).or_insert_with(|| {
            times.push(Times { config, samples: Vec::new() });
            times.len() as u32 - 1
        })
    }
}
