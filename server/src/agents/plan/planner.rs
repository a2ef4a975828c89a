use diode_api::{Ability, Breadth, Purpose};
use diode_core::hardware::Hardware;
use diode_core::{Problem, is_kept};

use super::cells::AllCells;
use super::cost::{launch, seconds};
use super::draw::{draw, key};
use super::kind::Kind;
use super::known::KnownProblems;
use super::order::Order;

/// A kind counts as used up after this many draws in a row that are too much for the device.
const TRIES: u32 = 8;

/// A problem to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    pub problem: Problem,
    pub purpose: Purpose,
    pub breadth: Breadth,
    pub seconds: f64,
}

/// Plans one problem after the other for a hardware. The sequence is endless, unless the device can measure
/// nothing within the time of a lease.
pub struct Planner<'a> {
    hardware: &'a Hardware,
    ability: &'a Ability,
    most_seconds: f64,
    known: &'a KnownProblems,
    cells: AllCells,
    seed: u64,
    /// The kinds that have had no turn yet.
    unmet: std::slice::Iter<'a, Kind>,
    /// The kinds that have had a turn, in the order of their first turns.
    order: Vec<Turn>,
    /// A kind with more known problems than this is skipped in this pass.
    depth: u32,
    place: usize,
}

/// The state of a kind in the order.
struct Turn {
    kind: Kind,
    /// The key of the kind's draws.
    key: u64,
    /// The number of the kind's next draw.
    next: u32,
    /// How many problems of the kind are known, including planned ones.
    count: u32,
    /// Whether problems of the kind were known at the start. If so, each draw is compared with the known
    /// problems.
    has_known: bool,
    /// Whether the kind has nothing left for the device. Such a kind leaves the order at the end of the pass.
    used_up: bool,
}

impl<'a> Planner<'a> {
    /// Plans for devices with this ability. Each problem takes at most `most_seconds`. Known problems are left
    /// out.
    pub fn new(
        hardware: &'a Hardware,
        ability: &'a Ability,
        most_seconds: f64,
        known: &'a KnownProblems,
        order: &'a Order,
    ) -> Self {
        Self {
            hardware,
            ability,
            most_seconds,
            known,
            cells: AllCells::new(),
            seed: order.seed(),
            unmet: order.kinds().iter(),
            order: Vec::new(),
            depth: 0,
            place: 0,
        }
    }

    /// Adds the turn of another kind; `false` if there are no more kinds. Few kinds are added for a plan of few
    /// problems.
    fn meet(&mut self) -> bool {
        let Some(&kind) = self.unmet.find(|kind| kind.is_for(self.ability)) else { return false };
        let (count, key) = (self.known.of_kind(kind), key(kind, self.seed));
        self.order.push(Turn { kind, key, next: count, count, has_known: count > 0, used_up: false });
        true
    }

    /// The next problem of one kind, even if another kind is due. `None` if nothing of the kind is left for the
    /// device.
    pub fn next_of_kind(&mut self, kind: Kind) -> Option<Planned> {
        let (count, key) = (self.known.of_kind(kind), key(kind, self.seed));
        let place = self.order.len();
        self.order.push(Turn { kind, key, next: count, count, has_known: count > 0, used_up: false });
        let next = self.next_of(place);
        self.order.pop();
        next
    }

    /// The next problem of the kind at `place`. `None` after [`TRIES`] draws in a row that do not fit.
    fn next_of(&mut self, place: usize) -> Option<Planned> {
        let turn = &mut self.order[place];
        let mut tries = 0;
        while tries < TRIES {
            let drawn = draw(turn.kind, u64::from(turn.next), turn.key, &self.cells);
            turn.next += 1;
            if turn.has_known && drawn.as_ref().is_some_and(|problem| self.known.contains(problem)) {
                tries = 0;
                continue;
            }
            tries += 1;
            let Some(problem) = drawn else { continue };
            if problem.bytes() > self.ability.memory_bytes as f64 || !self.ability.has_kernels_for(&problem) {
                continue;
            }
            let launch = launch(self.hardware, &problem);
            let cost = |breadth| (breadth, seconds(self.hardware, launch, breadth));
            // If all configs take too long, a sample is still worth measuring.
            let (mut breadth, mut seconds) = cost(Breadth::Sample);
            if seconds > self.most_seconds {
                continue;
            }
            if breadth_of(&problem) == Breadth::Full && cost(Breadth::Full).1 <= self.most_seconds {
                (breadth, seconds) = cost(Breadth::Full);
            }
            let purpose = if turn.count == 0 { Purpose::Hole } else { Purpose::More };
            turn.count += 1;
            return Some(Planned { problem, purpose, breadth, seconds });
        }
        turn.used_up = true;
        None
    }
}

impl Iterator for Planner<'_> {
    type Item = Planned;

    fn next(&mut self) -> Option<Planned> {
        loop {
            if self.place == self.order.len() && !self.meet() {
                self.order.retain(|turn| !turn.used_up);
                // Kinds with many known problems have been skipped until the other kinds have as many.
                self.depth = self.order.iter().map(|turn| turn.count).min()?;
                self.place = 0;
            }
            let is_due = self.order[self.place].count <= self.depth;
            self.place += 1;
            if is_due && let Some(planned) = self.next_of(self.place - 1) {
                return Some(planned);
            }
        }
    }
}

/// The order in which purposes are measured: the smallest rank first.
pub fn rank(purpose: Purpose) -> u64 {
    match purpose {
        Purpose::Hole => FIRST_RANK,
        Purpose::Wanted => 1,
        Purpose::Weak | Purpose::Confirm | Purpose::Again => 2,
        Purpose::More => LAST_RANK,
    }
}

/// The ranks of problems that the plan brings by itself. The ranks between these are for problems that people
/// and models ask for. There are holes for a long time, so problems that were asked for get a share of each
/// lease meanwhile.
pub const FIRST_RANK: u64 = 0;
pub const LAST_RANK: u64 = 3;

/// Which configs are timed on a problem. All are timed on problems that are kept for judging models, and on a
/// quarter of the other problems, so that models learn of configs that nobody would choose.
pub fn breadth_of(problem: &Problem) -> Breadth {
    let sum = problem.m ^ problem.n.rotate_left(1) ^ problem.k.rotate_left(2);
    if sum.count_ones().is_multiple_of(4) || is_kept(problem) { Breadth::Full } else { Breadth::Sample }
}
