use std::collections::{HashMap, HashSet};

use diode_core::api::{Ability, Breadth, Purpose};
use diode_core::hardware::Hardware;
use diode_core::{Problem, is_kept};

use super::cost::expected_seconds;
use super::draw::{Random, draw};
use super::kind::{Kind, kinds};

/// Tries to find a problem of a kind that is not known yet; some kinds have few.
const TRIES: u64 = 8;

/// A problem to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    pub problem: Problem,
    pub purpose: Purpose,
    pub breadth: Breadth,
    pub seconds: f64,
}

/// The order in which a hardware is measured: an endless sequence, unless the device can measure nothing in
/// the time it has.
pub struct Planner<'a> {
    hardware: &'a Hardware,
    ability: &'a Ability,
    most_seconds: f64,
    seed: u64,
    /// The first first. Kinds that have nothing for the device leave it when their turn comes.
    order: Vec<Kind>,
    /// Kinds that leave it at the end of the pass.
    used_up: HashSet<Kind>,
    /// How many problems of a kind there are, planned ones among them.
    counts: HashMap<Kind, u32>,
    known: HashSet<Problem>,
    /// Kinds with more problems than this have their turn later.
    depth: u32,
    place: usize,
}

impl<'a> Planner<'a> {
    /// Plans for devices of an ability, problems that take at most so many seconds each, beside those that are
    /// known.
    pub fn new(
        hardware: &'a Hardware,
        ability: &'a Ability,
        most_seconds: f64,
        known: impl IntoIterator<Item = Problem>,
        seed: u64,
    ) -> Self {
        let known: HashSet<Problem> = known.into_iter().collect();
        let mut counts = HashMap::new();
        for kind in known.iter().filter_map(Kind::of) {
            *counts.entry(kind).or_default() += 1;
        }
        let order = ordered(kinds(Some(ability)), seed);
        Self {
            hardware,
            ability,
            most_seconds,
            seed,
            order,
            used_up: HashSet::new(),
            counts,
            known,
            depth: 0,
            place: 0,
        }
    }

    /// The next problem of a kind; `None` if so many tries find none that is unknown and short enough.
    fn of_kind(&mut self, kind: Kind) -> Option<Planned> {
        let count = self.counts.entry(kind).or_default();
        let purpose = if *count == 0 { Purpose::Hole } else { Purpose::More };
        let first = u64::from(*count) * TRIES;
        *count += 1;
        for problem in (first..first + TRIES).filter_map(|number| draw(kind, number, self.seed)) {
            if problem.bytes() > self.ability.memory_bytes as f64 || !self.ability.has_kernels_for(&problem) {
                continue;
            }
            let cost = |breadth| (breadth, expected_seconds(self.hardware, &problem, breadth));
            // A problem that takes too long with every config is worth a sample.
            let mut costs = [breadth_of(&problem), Breadth::Sample].into_iter().map(cost);
            let Some((breadth, seconds)) = costs.find(|(_, seconds)| *seconds <= self.most_seconds) else {
                continue;
            };
            if self.known.insert(problem.clone()) {
                return Some(Planned { problem, purpose, breadth, seconds });
            }
        }
        None
    }

    fn known_of(&self, kind: Kind) -> u32 {
        self.counts.get(&kind).copied().unwrap_or_default()
    }
}

impl Iterator for Planner<'_> {
    type Item = Planned;

    fn next(&mut self) -> Option<Planned> {
        loop {
            let Some(&kind) = self.order.get(self.place) else {
                let used_up = std::mem::take(&mut self.used_up);
                self.order.retain(|kind| !used_up.contains(kind));
                // Kinds with many known problems have waited until the others have as many.
                self.depth = self.order.iter().map(|kind| self.known_of(*kind)).min()?;
                self.place = 0;
                continue;
            };
            if self.known_of(kind) > self.depth {
                self.place += 1;
            } else if let Some(planned) = self.of_kind(kind) {
                self.place += 1;
                return Some(planned);
            } else {
                self.used_up.insert(kind);
                self.place += 1;
            }
        }
    }
}

/// What is measured first; the smaller, the sooner.
pub fn rank(purpose: Purpose) -> u64 {
    match purpose {
        Purpose::Hole => 0,
        Purpose::Wanted => 1,
        Purpose::Confirm => 2,
        Purpose::More => 3,
    }
}

/// Which configs are timed on a problem: all where models are judged, and on one problem in four, so that
/// models learn of configs that nobody would choose.
pub fn breadth_of(problem: &Problem) -> Breadth {
    let sum = problem.m ^ problem.n.rotate_left(1) ^ problem.k.rotate_left(2);
    if is_kept(problem) || sum.count_ones().is_multiple_of(4) { Breadth::Full } else { Breadth::Sample }
}

/// Shuffled, but so that kinds of twice the weight come first twice as often (Efraimidis and Spirakis).
fn ordered(kinds: Vec<Kind>, seed: u64) -> Vec<Kind> {
    let key = |kind: &Kind| -Random::of(*kind, seed).next().max(f64::MIN_POSITIVE).ln() / kind.weight();
    let mut keyed: Vec<(f64, Kind)> = kinds.into_iter().map(|kind| (key(&kind), kind)).collect();
    keyed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    keyed.into_iter().map(|(_, kind)| kind).collect()
}
