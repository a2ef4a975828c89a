//! Which configs to try for a problem that is not in the table, judged by the table's problems.
//!
//! The rule: the eight nearest problems vote. A neighbour's vote on a config is the config's loss there:
//! the logarithm of the config's time / the best time. The neighbour's sizes explain a part of the loss:
//! blocks that stick out of the matrix, and a last wave of blocks that leaves the device idle. That part
//! is subtracted. The expected loss is the mean of the votes, weighted by distance, plus the part that
//! the sizes of the asked problem explain. The config with the least expected loss wins.
//!
//! On 209 bf16 problems of one H200, with four folds by problem, the first pick reaches 94.7 % of the
//! best of 1,534 configs (geometric mean). The best config of the nearest problem alone reaches 90.7 %.
//! Some constants below could not be fitted to that data. They are marked "reasoned".

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::ops::Range;

use indexmap::IndexSet;

use crate::error::Invalid;
use crate::hardware::Facts;
use crate::space::{Feasibility, config_for, decompose_k_splits, feasibility, tma_readable};
use crate::table::{Table, TableConfig};
use crate::{Config, DType, Groups, OutputLayout, Problem, Tile};

/// How many problems vote. Between five and twenty, the number makes little difference.
const NEIGHBOURS: usize = 8;
/// Keeps a very near neighbour from outvoting all others, because near-best times are noisy.
const SOFTENING: f64 = 0.3;
/// A config with this loss (2.7 times slower) is bad. Larger losses count as this loss, since they say
/// nothing more.
const WORST_LOSS: f64 = 1.0;
/// If a neighbour's list lacks a config, the config's loss is the list's largest loss plus this number.
/// By this rule, lists of ten configs do as well as lists of all configs.
const UNLISTED_LOSS: f64 = 0.2;
/// How much of the padding and of the idle waves shows in the time, as a share.
const EXPLAINED: f64 = 0.3;

/// What a table advises for a problem.
#[derive(Debug, Clone, PartialEq)]
pub struct Nearest {
    /// The candidates, the least expected loss first. `EVEN_K` fits the asked problem, and the hardware
    /// can launch each of them.
    pub candidates: Vec<Candidate>,
    /// The neighbours that voted, the nearest first.
    pub neighbours: Vec<Neighbour>,
}

/// A config and its expected loss: the logarithm of its time over the best time, at least 0.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    pub config: Config,
    pub expected_loss: f64,
}

/// A problem of the table and its distance from the asked problem.
#[derive(Debug, Clone, PartialEq)]
pub struct Neighbour {
    pub problem: Problem,
    pub distance: f64,
}

/// How differently two problems are expected to behave. `None` if they run different kernels, so that
/// times of the first say nothing about the second.
pub fn distance(a: &Problem, b: &Problem) -> Option<f64> {
    /// A larger K only makes each block run longer, so K counts half.
    const K: f64 = 0.5;
    /// Other load widths need another kernel. Reasoned: the data has one width only.
    const OTHER_WIDTH: f64 = 4.0;
    /// Reasoned: the data has one layout only.
    const OTHER_LAYOUT: f64 = 1.0;
    /// Enough to prefer the same op if all else is equal. Reasoned: the data has one op only.
    const OTHER_OP: f64 = 0.25;
    let kind = |p: &Problem| (p.scaling, p.groups.map(|groups| (groups.stage, groups.rows)));
    if !a.op.is_like(b.op)
        || kind(a) != kind(b)
        || !same_arithmetic(a.a_dtype, b.a_dtype)
        || !same_arithmetic(a.b_dtype, b.b_dtype)
        || !same_arithmetic(a.out_dtype, b.out_dtype)
    {
        return None;
    }
    let octaves = |a: u64, b: u64| libm::log2(a as f64 / b as f64);
    let differs = |differ: bool, penalty: f64| if differ { penalty } else { 0.0 };
    let (wide_a, wide_b) = (a.alignment(), b.alignment());
    let groups = |p: &Problem| p.groups.map_or((1, 1), |groups| (groups.count.into(), groups.top_k.into()));
    let ((groups_a, top_a), (groups_b, top_b)) = (groups(a), groups(b));
    let squares = octaves(a.b, b.b).powi(2)
        + octaves(groups_a, groups_b).powi(2)
        + octaves(top_a, top_b).powi(2)
        + octaves(a.m, b.m).powi(2)
        + octaves(a.n, b.n).powi(2)
        + (K * octaves(a.k, b.k)).powi(2)
        + differs(a.k.is_multiple_of(16) != b.k.is_multiple_of(16), 1.0)
        + differs(a.n.is_multiple_of(16) != b.n.is_multiple_of(16), 1.0)
        + differs(wide_a.a != wide_b.a, OTHER_WIDTH)
        + differs(wide_a.b != wide_b.b, OTHER_WIDTH)
        + differs(a.a_layout != b.a_layout, OTHER_LAYOUT)
        + differs(a.b_layout != b.b_layout, OTHER_LAYOUT)
        + differs((a.op, a.bias) != (b.op, b.bias), OTHER_OP);
    Some(squares.sqrt())
}

/// The two 16-bit floats run the same instructions at the same rate.
fn same_arithmetic(a: DType, b: DType) -> bool {
    let half = |dtype| matches!(dtype, DType::Float16 | DType::BFloat16);
    a == b || (half(a) && half(b))
}

impl Table {
    /// The `top` configs by the votes of the nearest problems. `None` if no problem of the table is
    /// comparable, or if none of their configs can be launched.
    ///
    /// For a problem that is in the table, only its own entry votes.
    pub fn nearest(&self, problem: &Problem, top: usize) -> Option<Nearest> {
        let voters = self.voters(problem);
        let nearest: Vec<Neighbour> = voters
            .iter()
            .map(|voter| Neighbour { problem: voter.problem.clone(), distance: voter.distance })
            .collect();
        let facts = self.hardware.facts.as_ref();
        let asked = Explained { problem, facts };
        let listed: IndexSet<Config> = voters.iter().flat_map(|v| v.losses.keys().copied()).collect();
        let mut candidates: Vec<Candidate> = listed
            .into_iter()
            .filter_map(|general| {
                let config = fitted(&general, problem, facts)?;
                let votes: f64 =
                    voters.iter().map(|voter| voter.weight * voter.unexplained_loss(&general, facts)).sum();
                Some(Candidate { config, expected_loss: votes + asked.loss(&general) })
            })
            .collect();
        candidates.sort_by(|a, b| {
            a.expected_loss.total_cmp(&b.expected_loss).then_with(|| a.config.cmp(&b.config))
        });
        // The explained part can exceed the whole loss. All losses are shifted, so that none is below 0.
        let surplus = candidates.first().map_or(0.0, |best| best.expected_loss.min(0.0));
        for candidate in &mut candidates {
            candidate.expected_loss -= surplus;
        }
        candidates.truncate(top);
        (!candidates.is_empty()).then_some(Nearest { candidates, neighbours: nearest })
    }

    fn voters<'a>(&'a self, problem: &'a Problem) -> Vec<Voter<'a>> {
        let mut near: Vec<(f64, &Problem, &[TableConfig])> = match self.lookup(problem) {
            Some(configs) => vec![(0.0, problem, configs)],
            None => self
                .iter()
                .filter_map(|(known, configs)| Some((distance(problem, known)?, known, configs)))
                .collect(),
        };
        near.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.1.cmp(b.1)));
        near.truncate(NEIGHBOURS);
        let weight = |distance: f64| (distance + SOFTENING).powi(-2);
        let total: f64 = near.iter().map(|&(distance, ..)| weight(distance)).sum();
        near.into_iter()
            .map(|(distance, problem, configs)| {
                Voter::new(problem, configs, distance, weight(distance) / total)
            })
            .collect()
    }
}

/// A neighbour and the losses of its configs.
struct Voter<'a> {
    problem: &'a Problem,
    distance: f64,
    weight: f64,
    losses: HashMap<Config, f64>,
    unlisted: f64,
}

impl<'a> Voter<'a> {
    fn new(problem: &'a Problem, configs: &[TableConfig], distance: f64, weight: f64) -> Self {
        let best = configs.iter().filter_map(|c| c.time).map(|time| time.0).fold(f64::INFINITY, f64::min);
        let mut losses = HashMap::with_capacity(configs.len());
        // A config without a time counts as much as the config before it in the list.
        let mut loss = 0.0;
        let mut worst = 0.0_f64;
        for entry in configs {
            if let Some(time) = entry.time {
                loss = libm::log(time.0 / best).min(WORST_LOSS);
            }
            worst = worst.max(loss);
            losses.entry(general(&entry.config)).or_insert(loss);
        }
        Self { problem, distance, weight, losses, unlisted: worst + UNLISTED_LOSS }
    }

    fn unexplained_loss(&self, config: &Config, facts: Option<&Facts>) -> f64 {
        let loss = self.losses.get(config).copied().unwrap_or(self.unlisted);
        loss - Explained { problem: self.problem, facts }.loss(config)
    }
}

/// The loss of a config that the sizes of a problem alone explain.
struct Explained<'a> {
    problem: &'a Problem,
    facts: Option<&'a Facts>,
}

impl Explained<'_> {
    fn loss(&self, config: &Config) -> f64 {
        config.tile().map_or(0.0, |tile| EXPLAINED * (self.padding(tile) + self.idle(tile)))
    }

    /// The work on rows and columns outside the output.
    fn padding(&self, tile: &Tile) -> f64 {
        let covered = |size: u64, block: u32| (size.div_ceil(block.into()) * u64::from(block)) as f64;
        let (m, n) = (self.problem.m, self.problem.n);
        libm::log(covered(m, tile.block_m) * covered(n, tile.block_n) / (m as f64 * n as f64))
    }

    /// The time in which multiprocessors wait for the end of the last wave.
    fn idle(&self, tile: &Tile) -> f64 {
        let Some(facts) = self.facts else { return 0.0 };
        let (m, n) = (self.problem.m, self.problem.n);
        let blocks = self.problem.b * m.div_ceil(tile.block_m.into()) * n.div_ceil(tile.block_n.into());
        let waves = blocks as f64 / f64::from(facts.sms);
        libm::log(waves.ceil() / waves)
    }
}

/// The config with `even_k` set to false. K decides `even_k`, so it must not tell apart the configs of
/// neighbours with different K.
fn general(config: &Config) -> Config {
    let uneven = |tile: Tile| Tile { even_k: false, ..tile };
    match *config {
        Config::Mm(tile) => Config::Mm(uneven(tile)),
        Config::Bmm(tile) => Config::Bmm(uneven(tile)),
        Config::PersistentTma(tile) => Config::PersistentTma(uneven(tile)),
        other @ (Config::DecomposeK { .. } | Config::Library | Config::RoundingLibrary) => other,
    }
}

/// A config adapted to the asked problem. `None` if the config cannot compute the problem or the
/// hardware cannot launch it.
fn fitted(config: &Config, problem: &Problem, facts: Option<&Facts>) -> Option<Config> {
    let fits = |tile: &Tile| facts.is_none_or(|facts| feasibility(facts, problem, tile) == Feasibility::Fits);
    match *config {
        Config::Mm(tile) | Config::Bmm(tile) => {
            fits(&tile).then(|| config_for(problem.op, tile.for_k(problem.k)))
        }
        Config::PersistentTma(tile) => {
            (tma_readable(problem) && fits(&tile)).then(|| Config::PersistentTma(tile.for_k(problem.k)))
        }
        Config::DecomposeK { k_split } => {
            let splits = decompose_k_splits(problem.m, problem.n, problem.k);
            (problem.op.is_plain() && splits.contains(&k_split)).then_some(*config)
        }
        Config::Library | Config::RoundingLibrary => Some(*config),
    }
}

/// Finds the range of a problem's configs in the table.
///
/// In a large table, reads from memory take most of a lookup's time. So a problem is packed into
/// three words with its range beside them, and one cache line holds both.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Index {
    problems: HashSet<IndexedProblem, DrawnPairs>,
    /// The output layouts that are not dense, and the groups. There are few of them.
    rare: IndexSet<Rare>,
}

/// What most problems do not have.
type Rare = (Option<OutputLayout>, Option<Groups>);

/// A problem and where its configs lie. It is aligned to its size, so that it never spans two cache
/// lines.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
struct IndexedProblem {
    problem: [u64; 3],
    range: (u32, u32),
}

/// Two entries are equal if their problems are, wherever their configs lie.
impl PartialEq for IndexedProblem {
    fn eq(&self, other: &Self) -> bool {
        self.problem == other.problem
    }
}

impl Eq for IndexedProblem {}

impl Hash for IndexedProblem {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.problem.iter().for_each(|&word| state.write_u64(word));
    }
}

impl IndexedProblem {
    /// `rare` is 0 for the dense output without groups. Otherwise it is the place in the list, plus
    /// one.
    fn new(problem: &Problem, rare: u32, range: (u32, u32)) -> Self {
        // Each of these enums fits into four bits and each size into 32, by the limits of their
        // types.
        let kinds = [
            problem.op as u64,
            problem.a_dtype as u64,
            problem.b_dtype as u64,
            problem.out_dtype as u64,
            problem.a_layout as u64,
            problem.b_layout as u64,
            problem.bias as u64,
            problem.scaling as u64,
        ];
        let kind = kinds.into_iter().fold(0, |packed, kind| packed << 4 | kind);
        let sizes = [problem.b << 32 | problem.m, problem.n << 32 | problem.k];
        Self { problem: [sizes[0], sizes[1], u64::from(rare) << 32 | kind], range }
    }
}

impl Index {
    pub(super) fn get(&self, problem: &Problem) -> Option<Range<usize>> {
        let rare = match (problem.out_layout, problem.groups) {
            (None, None) => 0,
            rare => self.rare.get_index_of(&rare)? as u32 + 1,
        };
        let (start, end) = self.problems.get(&IndexedProblem::new(problem, rare, (0, 0)))?.range;
        Some(start as usize..end as usize)
    }

    /// Adds a problem. Returns false if the table already has it.
    pub(super) fn insert(&mut self, problem: &Problem, range: Range<usize>) -> Result<bool, Invalid> {
        let narrow = |at: usize| {
            u32::try_from(at).map_err(|_| Invalid::new("configs of the table", at, "fewer than 2^32"))
        };
        let range = (narrow(range.start)?, narrow(range.end)?);
        let rare = match (problem.out_layout, problem.groups) {
            (None, None) => 0,
            rare => narrow(self.rare.insert_full(rare).0)? + 1,
        };
        // A problem that is already there keeps its configs.
        Ok(self.problems.insert(IndexedProblem::new(problem, rare, range)))
    }
}

/// How many words a problem is packed into.
const WORDS: usize = 3;

/// Two random numbers for each word.
type Drawn = [(u64, u64); WORDS];

/// Draws the random numbers of a [`PairHash`], once for each table.
///
/// The standard hash takes half of the time that a whole lookup may take. This hash is as safe here.
/// A table may hold problems from strangers, but strangers do not know the random numbers. In a
/// browser there is no source of random numbers; there, only the user who chose the problems would
/// wait longer.
#[derive(Debug, Clone)]
pub(super) struct DrawnPairs(Drawn);

impl Default for DrawnPairs {
    fn default() -> Self {
        let random = RandomState::new();
        let draw = |word: usize, half: u8| random.hash_one((word, half));
        Self(std::array::from_fn(|word| (draw(word, 0), draw(word, 1))))
    }
}

impl BuildHasher for DrawnPairs {
    type Hasher = PairHash;

    fn build_hasher(&self) -> PairHash {
        PairHash { drawn: self.0, word: 0, sum: 0 }
    }
}

/// Splits each word into halves, adds a random number to each half, multiplies both and sums the
/// products up. For two given problems, the upper halves of the sums are equal with a chance of 2⁻³²
/// (Thorup, *High Speed Hashing for Integers and Strings*).
pub(super) struct PairHash {
    drawn: Drawn,
    word: usize,
    sum: u64,
}

impl Hasher for PairHash {
    fn write_u64(&mut self, word: u64) {
        let (upper, lower) = self.drawn[self.word % WORDS];
        let product = upper.wrapping_add(word >> 32).wrapping_mul(lower.wrapping_add(word & 0xffff_ffff));
        self.sum = self.sum.wrapping_add(product);
        self.word += 1;
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    /// Returns the upper half twice, because a map uses bits from both ends.
    fn finish(&self) -> u64 {
        let upper = self.sum >> 32;
        upper << 32 | upper
    }
}

#[cfg(test)]
mod index_tests {
    use super::*;
    use crate::{Bias, DType, Layout, Op, ProblemFields, Scaling};

    #[test]
    fn every_part_of_a_problem_counts() {
        let max = Problem::MAX_DIM;
        let plain = ProblemFields::plain(Op::Baddbmm, 2, 3, 5, 7, DType::Float16);
        let layout = |stride| Some(OutputLayout { size: [2, 3, 5], stride });
        let scaled = |scaling| {
            let plain = ProblemFields::plain(Op::ScaledMm, 1, 3, 5, 7, DType::Float8E4M3);
            ProblemFields { scaling, ..plain }
        };
        let grouped = |count, top_k| {
            let plain = ProblemFields::plain(Op::GroupedMm, 1, 8, 5, 7, DType::BFloat16);
            ProblemFields { groups: Some(Groups::routed(count, top_k)), ..plain }
        };
        let variants = [
            plain.clone(),
            ProblemFields { op: Op::Bmm, bias: Bias::None, ..plain.clone() },
            ProblemFields { b: 3, m: 2, ..plain.clone() },
            ProblemFields { n: 7, k: 5, ..plain.clone() },
            ProblemFields { m: max, n: 1, k: 1, ..plain.clone() },
            ProblemFields { k: max, m: 1, n: 1, ..plain.clone() },
            ProblemFields { a_dtype: DType::Bool, ..plain.clone() },
            ProblemFields { b_dtype: DType::Bool, ..plain.clone() },
            ProblemFields { out_dtype: DType::Bool, ..plain.clone() },
            ProblemFields { a_layout: Layout::Column, ..plain.clone() },
            ProblemFields { b_layout: Layout::Column, ..plain.clone() },
            ProblemFields { bias: Bias::Vector, ..plain.clone() },
            ProblemFields { out_layout: layout([30, 10, 2]), ..plain.clone() },
            ProblemFields { out_layout: layout([60, 20, 4]), ..plain },
            scaled(Scaling::Row),
            scaled(Scaling::Block),
            grouped(8, 2),
            grouped(8, 4),
            grouped(16, 2),
        ]
        .map(|fields| Problem::new(fields).unwrap());
        let mut index = Index::default();
        for (at, problem) in variants.iter().enumerate() {
            assert_eq!(index.get(problem), None, "{}", problem.canonical());
            assert_eq!(index.insert(problem, at..at + 1), Ok(true), "{}", problem.canonical());
        }
        for (at, problem) in variants.iter().enumerate() {
            assert_eq!(index.get(problem), Some(at..at + 1), "{}", problem.canonical());
            assert_eq!(index.insert(problem, 0..1), Ok(false));
        }
    }
}

#[cfg(test)]
mod pairs_tests {
    use super::*;

    fn hash(drawn: &DrawnPairs, words: [u64; 3]) -> u64 {
        let mut hasher = drawn.build_hasher();
        words.into_iter().for_each(|word| hasher.write_u64(word));
        hasher.finish()
    }

    #[test]
    fn halves_are_multiplied_and_added_up() {
        let drawn = DrawnPairs([(1 << 32, 1), (5, 1 << 32), (0, 1 << 33)]);
        // (2^32 + 3) (1 + 4) + (5 + 6) (2^32 + 7) + 8 (2^33 + 9): the upper half is 5 + 11 + 16.
        assert_eq!(hash(&drawn, [3 << 32 | 4, 6 << 32 | 7, 8 << 32 | 9]), 32 << 32 | 32);
    }

    #[test]
    fn every_table_draws_its_own_numbers() {
        let problem = [1 << 32 | 512, 512 << 32 | 512, 0];
        let (one, other) = (DrawnPairs::default(), DrawnPairs::default());
        assert_eq!(hash(&one, problem), hash(&one.clone(), problem));
        assert_ne!(hash(&one, problem), hash(&other, problem));
    }
}
