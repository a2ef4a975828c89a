//! Draws the next problems of the plan.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use diode_api::{Ability, Breadth, Purpose};
use diode_core::hardware::Hardware;
use diode_core::kept::{hash, mix};
use diode_core::{Bias, Layout, Op, Problem, ProblemFields, is_kept};

use crate::agents::plan::served;
use crate::agents::plan::{Kind, Order, SizeBin, launch, seconds};

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
            if problem.memory() > self.ability.memory_bytes as f64 || !self.ability.has_kernels_for(&problem)
            {
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

/// The key of a kind's draws. The same seed gives the same draws.
pub(super) fn key(kind: Kind, seed: u64) -> u64 {
    let Kind { op, dtype, scaling, stage, b_layout, aligned, b, m, n, k } = kind;
    let parts = [seed, op as u64, dtype as u64, b_layout as u64, u64::from(aligned)];
    // Plain kinds have no more parts, so their plan stays as it was before there were others.
    let served = [scaling as u64, stage.map_or(0, |stage| 1 + stage as u64)];
    let served = served.into_iter().filter(|_| !op.is_plain());
    hash(parts.into_iter().chain([b, m, n, k].map(|bin| bin.place() as u64)).chain(served))
}

/// The problem of a kind that has this number. Different numbers give different problems. `None` beyond the
/// last number.
pub(super) fn draw(kind: Kind, number: u64, key: u64, cells: &AllCells) -> Option<Problem> {
    if !kind.op.is_plain() {
        return served::draw(kind, number, key);
    }
    // The number of elements in 16 bytes.
    let step = 16 / kind.dtype.size();
    let (aligned, unaligned) = (Rows::Aligned(step), Rows::Unaligned(step));
    // A problem can be unaligned in three ways. Kinds begin with different ways, since most kinds get only one
    // problem.
    let way = (number % 3 + key % 3) % 3;
    let (number, n_rows, k_rows) = match (kind.aligned, way) {
        (true, _) => (number, aligned, aligned),
        // An unaligned N or K makes a problem unaligned. So N, K or both are unaligned in turn.
        (false, 0) => (number / 3, unaligned, aligned),
        (false, 1) => (number / 3, aligned, unaligned),
        (false, _) => (number / 3, unaligned, unaligned),
    };
    let batch = cells.of(kind.b, Rows::Any).filter(|_| kind.op.is_batched());
    let sides = [cells.of(kind.m, Rows::Any)?, cells.of(kind.n, n_rows)?, cells.of(kind.k, k_rows)?];
    let bits = sides.into_iter().chain(batch).map(|side| side.bits).sum();
    let mut place = shuffled(number, bits, key)?;
    let mut chosen = mix(key ^ number);
    let mut size = |side: &Cells| {
        let cell = place & ((1 << side.bits) - 1);
        let size = side.size(cell as usize, chosen);
        place >>= side.bits;
        chosen >>= 16;
        size
    };
    let [m, n, k] = sides.map(&mut size);
    let b = batch.map_or(1, size);
    let bias = match kind.op {
        // The bias of a linear layer, whose weight lies in columns.
        Op::Addmm | Op::Baddbmm if kind.b_layout == Layout::Column => Bias::Vector,
        Op::Addmm | Op::Baddbmm => Bias::Matrix,
        _ => Bias::None,
    };
    let plain = ProblemFields::plain(kind.op, b, m, n, k, kind.dtype);
    Problem::new(ProblemFields { b_layout: kind.b_layout, bias, ..plain }).ok()
}

/// Permutes the numbers of `bits` bits. No two numbers get the same place, because each step can be undone.
pub(super) fn shuffled(number: u64, bits: u32, key: u64) -> Option<u64> {
    let mask = (1 << bits) - 1;
    if number > mask {
        return None;
    }
    let half = (bits / 2).max(1);
    let mut place = number.wrapping_add(key) & mask;
    for odd in [(key >> 20) | 1, 0x9E37_79B9_7F4A_7C15] {
        place = place.wrapping_mul(odd) & mask;
        place ^= place >> half;
    }
    Some(place)
}

/// The problems of a hardware that have been measured or planned. Problems that the plan does not cover are
/// left out.
#[derive(Debug, Clone, Default)]
pub struct KnownProblems {
    /// How many problems of each kind are known.
    counts: HashMap<Kind, u32>,
    /// A hash of each known problem: whole problems would take ten times the memory. If two problems have the
    /// same hash, the plan skips one of them.
    hashes: HashSet<u64>,
}

impl KnownProblems {
    pub fn add(&mut self, problem: &Problem) {
        if let Some(kind) = Kind::of(problem)
            && self.hashes.insert(hash_of(problem))
        {
            *self.counts.entry(kind).or_default() += 1;
        }
    }

    pub(super) fn of_kind(&self, kind: Kind) -> u32 {
        self.counts.get(&kind).copied().unwrap_or_default()
    }

    pub(super) fn contains(&self, problem: &Problem) -> bool {
        self.hashes.contains(&hash_of(problem))
    }
}

impl<'a> FromIterator<&'a Problem> for KnownProblems {
    fn from_iter<I: IntoIterator<Item = &'a Problem>>(problems: I) -> Self {
        let mut known = Self::default();
        problems.into_iter().for_each(|problem| known.add(problem));
        known
    }
}

fn hash_of(problem: &Problem) -> u64 {
    let mut hasher = DefaultHasher::new();
    problem.hash(&mut hasher);
    hasher.finish()
}

/// A kind is weak only if the model's first picks for it reach less than this share of the best speed.
const GOOD: f64 = 0.95;

/// The kinds for which a model picks worst, the worst first. `shares` are problems that the model had not seen, with
/// the share of the best speed that the model's first picks reach.
pub fn weakest(shares: &[(Problem, f64)], most: usize) -> Vec<Kind> {
    let mut kinds: HashMap<Kind, (f64, u32)> = HashMap::new();
    for (problem, share) in shares {
        if let Some(kind) = Kind::of(problem) {
            let (sum, count) = kinds.entry(kind).or_default();
            *sum += share.max(f64::MIN_POSITIVE).ln();
            *count += 1;
        }
    }
    let means = kinds.into_iter().map(|(kind, (sum, count))| ((sum / f64::from(count)).exp(), kind));
    let mut weak: Vec<(f64, Kind)> = means.filter(|(share, _)| *share < GOOD).collect();
    weak.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    weak.truncate(most);
    weak.into_iter().map(|(_, kind)| kind).collect()
}

/// The most cells of a bin. With M, N and K, that makes 64³ = 262,144 problems of a kind, more than many agents
/// together measure in years.
pub(super) const MOST_CELLS: u64 = 64;

/// The sizes of a bin that are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rows {
    Any,
    /// Multiples of the number of elements in 16 bytes, which is 4 or 8.
    Aligned(u64),
    /// All sizes except the multiples of this number.
    Unaligned(u64),
}

/// The sizes of a bin, divided into cells. The number of cells is a power of two. The ratio of the largest to the
/// smallest size is about the same in each cell, so sizes are drawn evenly on a logarithmic scale. A problem
/// takes one size of a cell, so problems of different cells differ.
#[derive(Debug, Clone)]
pub(super) struct Cells {
    /// Where each cell begins, and where the last one ends. Aligned sizes are counted in multiples of the step.
    bounds: Vec<u64>,
    /// The logarithm, to base 2, of the number of cells.
    pub(super) bits: u32,
    rows: Rows,
}

impl Cells {
    /// `None` if the bin has no wanted size.
    fn new(bin: SizeBin, rows: Rows) -> Option<Self> {
        let (least, end, narrowest) = match rows {
            Rows::Any => (bin.least(), bin.most() + 1, 1),
            Rows::Aligned(step) => (bin.least().div_ceil(step), bin.most() / step + 1, 1),
            // A cell has at least two sizes, so that one of them is no multiple.
            Rows::Unaligned(_) => (bin.least(), bin.most() + 1, 2),
        };
        let number = MOST_CELLS.min(1 << ((end - least) / narrowest).checked_ilog2()?);
        let ratio = end as f64 / least as f64;
        let mut bounds = vec![least];
        for cell in 1..number {
            let even = (least as f64 * ratio.powf(cell as f64 / number as f64)) as u64;
            bounds.push(even.max(bounds[cell as usize - 1] + narrowest));
        }
        bounds.push(end);
        Some(Self { bounds, bits: number.ilog2(), rows })
    }

    /// One size of a cell, chosen by the lowest 16 bits of `chosen`. No cell has more than 2¹⁶ sizes.
    pub(super) fn size(&self, cell: usize, chosen: u64) -> u64 {
        let (from, end) = (self.bounds[cell], self.bounds[cell + 1]);
        let at = from + (((chosen & 0xffff) * (end - from)) >> 16);
        match self.rows {
            Rows::Any => at,
            Rows::Aligned(step) => at * step,
            Rows::Unaligned(step) if !at.is_multiple_of(step) => at,
            Rows::Unaligned(_) if at + 1 < end => at + 1,
            Rows::Unaligned(_) => at - 1,
        }
    }
}

/// The cells of every bin.
pub(super) struct AllCells(Vec<[Option<Cells>; 5]>);

impl AllCells {
    pub(super) fn new() -> Self {
        let rows = [Rows::Any, Rows::Aligned(4), Rows::Aligned(8), Rows::Unaligned(4), Rows::Unaligned(8)];
        Self(SizeBin::ALL.map(|bin| rows.map(|rows| Cells::new(bin, rows))).into())
    }

    pub(super) fn of(&self, bin: SizeBin, rows: Rows) -> Option<&Cells> {
        let place = match rows {
            Rows::Any => 0,
            Rows::Aligned(4) => 1,
            Rows::Aligned(_) => 2,
            Rows::Unaligned(4) => 3,
            Rows::Unaligned(_) => 4,
        };
        self.0[bin.place()][place].as_ref()
    }
}

#[cfg(test)]
mod draw_tests {
    use super::*;

    #[test]
    fn shuffling_loses_nothing_and_adds_nothing() {
        for bits in [0, 1, 2, 5, 12] {
            for key in [0, 1, u64::MAX >> 1, 0x1234_5678_9abc_def0] {
                let mut places: Vec<u64> =
                    (0..1 << bits).map(|number| shuffled(number, bits, key).unwrap()).collect();
                assert!(bits < 5 || !places.is_sorted());
                places.sort_unstable();
                assert!(places.into_iter().eq(0..1 << bits), "{bits} bits, key {key}");
                assert_eq!(shuffled(1 << bits, bits, key), None);
            }
        }
    }
}

#[cfg(test)]
mod weak_tests {
    use diode_core::{DType, Op, ProblemFields};

    use super::*;

    fn mm(m: u64, n: u64, k: u64) -> Problem {
        Problem::new(ProblemFields::plain(Op::Mm, 1, m, n, k, DType::BFloat16)).unwrap()
    }

    #[test]
    fn the_worst_kinds_come_first_and_good_ones_not_at_all() {
        let shares = [
            (mm(64, 4096, 4096), 0.9),
            (mm(72, 4160, 4160), 0.5),
            (mm(4096, 4096, 64), 0.6),
            (mm(4096, 4096, 4096), 0.99),
        ];
        assert_eq!(Kind::of(&shares[0].0), Kind::of(&shares[1].0));
        let [both, other] = [0, 2].map(|place| Kind::of(&shares[place].0).unwrap());
        assert_eq!(weakest(&shares, 9), [other, both], "the mean of 0.9 and 0.5 is 0.67");
        assert_eq!(weakest(&shares, 1), [other]);
        assert_eq!(weakest(&[], 1), []);
    }
}

#[cfg(test)]
mod cells_tests {
    use super::*;

    #[test]
    fn cells_divide_a_bin_into_what_was_asked_for() {
        for bin in SizeBin::ALL {
            for rows in
                [Rows::Any, Rows::Aligned(4), Rows::Aligned(8), Rows::Unaligned(4), Rows::Unaligned(8)]
            {
                let Some(cells) = Cells::new(bin, rows) else {
                    assert!(bin == SizeBin::ONE && matches!(rows, Rows::Aligned(_)), "{bin} {rows:?}");
                    continue;
                };
                let mut before = 0;
                for cell in 0..1 << cells.bits {
                    let sizes = [0, 1 << 15, 0xffff].map(|chosen| cells.size(cell, chosen));
                    for size in sizes {
                        assert!(SizeBin::of(size) == Some(bin) && size > before, "{bin} {rows:?} {sizes:?}");
                        match rows {
                            Rows::Any => {}
                            Rows::Aligned(step) => assert!(size.is_multiple_of(step)),
                            Rows::Unaligned(step) => assert!(!size.is_multiple_of(step)),
                        }
                    }
                    before = sizes[2];
                }
            }
        }
        let largest = Cells::new(SizeBin::ALL[7], Rows::Any).unwrap();
        assert_eq!(largest.bits, 6);
        assert_eq!(largest.size(32, 0), 32_768, "half of the cells are below half of the way");
    }
}
