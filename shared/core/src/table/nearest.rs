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

use std::collections::HashMap;

use indexmap::IndexSet;

use super::{Table, TableConfig};
use crate::hardware::Facts;
use crate::space::{Feasibility, config_for, decompose_k_splits, feasibility, tma_readable};
use crate::{Config, DType, Problem, Tile};

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
    if a.op.is_batched() != b.op.is_batched()
        || !same_arithmetic(a.a_dtype, b.a_dtype)
        || !same_arithmetic(a.b_dtype, b.b_dtype)
        || !same_arithmetic(a.out_dtype, b.out_dtype)
    {
        return None;
    }
    let octaves = |a: u64, b: u64| libm::log2(a as f64 / b as f64);
    let differs = |differ: bool, penalty: f64| if differ { penalty } else { 0.0 };
    let (wide_a, wide_b) = (a.alignment(), b.alignment());
    let squares = octaves(a.b, b.b).powi(2)
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
            decompose_k_splits(problem.m, problem.n, problem.k).contains(&k_split).then_some(*config)
        }
        Config::Library | Config::RoundingLibrary => Some(*config),
    }
}
