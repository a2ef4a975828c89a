//! Named sets of configs per vendor. [`SpaceName::Default`] is Inductor's short list.
//! [`SpaceName::InductorExhaustive`] is what Inductor's exhaustive search keeps for one problem.
//! [`SpaceName::Full`] is every config of the exhaustive list that the hardware can launch. "Percent
//! of exhaustive" always means of `full`.

mod cuda;
mod rocm;
pub mod serving;

use indexmap::IndexSet;

use crate::error::Invalid;
use crate::hardware::{Facts, Hardware, Vendor};
use crate::named_enum::named_enum;
use crate::{Config, Op, Problem, Tile};

pub use crate::space::cuda::{persistent_tma, tma_readable};

named_enum! {
    /// A named space.
    SpaceName("space") {
        /// Inductor's default list, scaled to the problem.
        Default = "default",
        /// Inductor's exhaustive list after its own pruning.
        InductorExhaustive = "inductor-exhaustive",
        /// Every config of the exhaustive list that the hardware can launch.
        Full = "full",
    }
}

/// A set of configs to time or to rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Space {
    Named(SpaceName),
    /// A list from the user, used as it is.
    List(Vec<Config>),
}

impl Space {
    /// Whether the list of configs depends on the sizes of a problem in more than `EVEN_K`. (Every
    /// list but a user's may also depend on the input types.)
    pub fn follows_sizes(&self, hardware: &Hardware) -> bool {
        match self {
            Self::List(_) => false,
            Self::Named(name) => *name != SpaceName::Full || hardware.vendor == Vendor::Cpu,
        }
    }

    /// The configs of this space for one problem, in a fixed order and without duplicates. `EVEN_K`
    /// is set as the problem's K requires. A user's list is returned as it is.
    pub fn configs(&self, hardware: &Hardware, problem: &Problem) -> Result<Vec<Config>, Invalid> {
        let name = match self {
            Self::List(configs) => return Ok(configs.clone()),
            Self::Named(name) => *name,
        };
        if !problem.op.is_plain() && hardware.vendor != Vendor::Cpu {
            return Ok(serving::configs(hardware, problem));
        }
        problem.op.check_plain().map_err(|invalid| invalid.within(format_args!("space {name}")))?;
        let tiles = match hardware.vendor {
            Vendor::Nvidia => cuda::tiles(name, hardware, problem)?,
            Vendor::Cpu => tiles(name, hardware, problem),
            Vendor::Amd => rocm::tiles(name, hardware, problem)?,
        };
        Ok(tiles.into_iter().map(|tile| config_for(problem.op, tile.for_k(problem.k))).collect())
    }
}

/// The config for an op and a tile. Inductor has one template for plain multiplications and one for
/// batches.
pub fn config_for(op: Op, tile: Tile) -> Config {
    if op.is_batched() { Config::Bmm(tile) } else { Config::Mm(tile) }
}

/// Clips blocks to the problem, drops tiles that need too many accumulator registers (in exhaustive
/// lists only), lowers the number of warps and removes duplicates.
fn scaled(tiles: impl Iterator<Item = Tile>, problem: &Problem, prune_accumulators: bool) -> Vec<Tile> {
    const MAX_ACCUMULATORS: u32 = 255;
    /// Inductor counts 32 threads per warp on AMD GPUs, too, although their warps have 64.
    const WARP_SIZE: u32 = 32;
    const AREA_PER_WARP: u32 = 256;
    let clip = |size: u64| u32::try_from(size.next_power_of_two()).unwrap_or(u32::MAX).max(16);
    let (max_m, max_n, max_k) = (clip(problem.m), clip(problem.n), clip(problem.k));
    let mut seen = IndexSet::new();
    for mut tile in tiles {
        tile.block_m = tile.block_m.min(max_m);
        tile.block_n = tile.block_n.min(max_n);
        tile.block_k = tile.block_k.min(max_k);
        let area = tile.block_m * tile.block_n;
        if prune_accumulators && area.div_ceil(tile.num_warps * WARP_SIZE) > MAX_ACCUMULATORS {
            continue;
        }
        tile.num_warps = tile.num_warps.min(area / AREA_PER_WARP);
        seen.insert(tile);
    }
    seen.into_iter().collect()
}

/// The splits that Inductor tries by default. It splits K only if K is at least 32 times as large
/// as M and as N.
///
/// Splits whose parts are powers of two come first. Then come multiples of 32, then the rest.
///
/// ```
/// use diode_core::space::decompose_k_splits;
///
/// assert_eq!(decompose_k_splits(256, 256, 16_384), [2, 4, 8, 16, 32, 64]);
/// assert!(decompose_k_splits(4096, 4096, 4096).is_empty());
/// ```
pub fn decompose_k_splits(m: u64, n: u64, k: u64) -> Vec<u32> {
    const THRESHOLD: u64 = 32;
    const SHORTEST_PART: u64 = 128;
    const MOST: usize = 10;
    if m == 0 || n == 0 || k / THRESHOLD < m.max(n) {
        return Vec::new();
    }
    let largest = k / m.max(n);
    let rank = |part: u64| match part {
        _ if part.is_power_of_two() => 0,
        _ if part.is_multiple_of(32) => 1,
        _ => 2,
    };
    let mut splits: Vec<u64> = divisors(k)
        .into_iter()
        .filter(|&split| (2..=largest).contains(&split) && k / split >= SHORTEST_PART)
        .collect();
    splits.sort_by_key(|&split| (rank(k / split), split));
    splits.truncate(MOST);
    splits.into_iter().filter_map(|split| u32::try_from(split).ok()).collect()
}

fn divisors(number: u64) -> Vec<u64> {
    (1..=number.isqrt())
        .filter(|&d| number.is_multiple_of(d))
        .flat_map(|d| [d, number / d])
        .collect::<std::collections::BTreeSet<u64>>()
        .into_iter()
        .collect()
}

/// Whether a config can be launched on some hardware, and if not, why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feasibility {
    Fits,
    /// The stages need more shared memory than a block may have.
    SharedMemory,
    /// The accumulators alone need more registers than a thread has, so they would spill to memory.
    Spills,
}

/// Judges a tile by the rule that decides which configs are measured. The stages of the pipeline must fit
/// in shared memory, and the accumulators in 256 registers.
///
/// On NVIDIA GPUs every stage counts, although kernels without `wgmma` need one stage less. This leaves
/// room for the epilogue, and keeps the space as it was measured. ROCm's compiler holds the last stage in
/// registers, so that stage does not count for a tile with ROCm's extras.
pub fn feasibility(facts: &Facts, problem: &Problem, tile: &Tile) -> Feasibility {
    const MAX_ACCUMULATORS: u32 = 256;
    let stage = stage_bytes(problem, tile);
    let stages = if tile.rocm.is_some() { (tile.num_stages - 1).max(1) } else { tile.num_stages };
    if stage * u64::from(stages) > u64::from(facts.smem_per_block) {
        return Feasibility::SharedMemory;
    }
    if tile.block_m * tile.block_n > MAX_ACCUMULATORS * tile.num_warps * facts.warp_size {
        return Feasibility::Spills;
    }
    Feasibility::Fits
}

/// Whether no kernel of this tile can have run, because even with one stage less its operands do not fit
/// in shared memory. [`feasibility`] chooses what to measure; this function refuses what others claim.
pub fn cannot_have_run(facts: &Facts, problem: &Problem, tile: &Tile) -> bool {
    let stages = tile.num_stages.saturating_sub(1).max(1);
    stage_bytes(problem, tile).saturating_mul(u64::from(stages)) > u64::from(facts.smem_per_block)
}

/// The bytes of shared memory that one stage of the pipeline takes.
fn stage_bytes(problem: &Problem, tile: &Tile) -> u64 {
    let operand_size = problem.a_dtype.size().max(problem.b_dtype.size());
    u64::from(tile.block_m + tile.block_n) * u64::from(tile.block_k) * operand_size
}

/// The tiles that the hardware can launch.
fn launchable(
    tiles: impl IntoIterator<Item = Tile>,
    hardware: &Hardware,
    problem: &Problem,
) -> Result<Vec<Tile>, Invalid> {
    let facts = hardware.facts.as_ref().ok_or_else(|| {
        Invalid::new(
            "hardware",
            format_args!("{} without facts", hardware.slug),
            "known shared memory and registers, to tell what can be launched; use --space default",
        )
    })?;
    Ok(tiles.into_iter().filter(|tile| feasibility(facts, problem, tile) == Feasibility::Fits).collect())
}

const DEFAULT: [(u32, u32, u32); 6] =
    [(16, 64, 64), (32, 64, 64), (32, 128, 64), (64, 64, 64), (64, 128, 128), (128, 128, 128)];
const BLOCKS: [u32; 4] = [16, 32, 64, 128];
const SMALLEST: u32 = 16;

fn tiles(name: SpaceName, hardware: &Hardware, problem: &Problem) -> Vec<Tile> {
    let cores = hardware.facts.as_ref().map_or(1, |facts| facts.sms);
    let threads = [1, 2, 4, 8, 16, 32].into_iter().filter(|&t| t <= cores.max(1));
    let blocks: Vec<(u32, u32, u32)> = match name {
        SpaceName::Default => DEFAULT.to_vec(),
        SpaceName::InductorExhaustive | SpaceName::Full => BLOCKS
            .into_iter()
            .flat_map(|m| BLOCKS.into_iter().flat_map(move |n| BLOCKS.into_iter().map(move |k| (m, n, k))))
            .collect(),
    };
    // A block larger than the problem runs the same loops as a block that just covers it.
    let clip = |block: u32, size: u64| {
        block.min(u32::try_from(size.next_power_of_two()).unwrap_or(u32::MAX).max(SMALLEST))
    };
    let clipped: IndexSet<Tile> = threads
        .flat_map(|t| blocks.iter().map(move |&(m, n, k)| (m, n, k, t)))
        .map(|(m, n, k, t)| Tile::new(clip(m, problem.m), clip(n, problem.n), clip(k, problem.k), 1, t))
        .collect();
    clipped.into_iter().collect()
}

#[cfg(test)]
mod decompose_k_tests {
    use super::*;

    #[test]
    fn splits_equal_inductors_own() {
        assert_eq!(decompose_k_splits(64, 64, 4096), [2, 4, 8, 16, 32]);
        assert_eq!(decompose_k_splits(100, 100, 6400), [25, 50, 2, 4, 5, 8, 10, 20, 40, 16]);
        assert_eq!(decompose_k_splits(128, 128, 4096), [2, 4, 8, 16, 32]);
    }

    #[test]
    fn sizes_that_inductor_does_not_consider_have_none() {
        assert!(decompose_k_splits(128, 129, 4096).is_empty());
        assert!(decompose_k_splits(1, 4096, 4096).is_empty());
        // Every part would be shorter than 128.
        assert!(decompose_k_splits(1, 1, 251).is_empty());
    }
}

#[cfg(test)]
mod cpu_tests {
    use super::*;
    use crate::hardware::Vendor;
    use crate::{DType, Op, ProblemFields};

    #[test]
    fn the_smallest_problem_has_a_config_and_none_twice() {
        let hardware = Hardware {
            slug: "cpu-test".parse().unwrap(),
            name: "CPU test".to_owned(),
            vendor: Vendor::Cpu,
            facts: None,
        };
        let count = |name, m, n, k| {
            let problem = Problem::new(ProblemFields::plain(Op::Mm, 1, m, n, k, DType::Float32)).unwrap();
            tiles(name, &hardware, &problem).len()
        };
        assert_eq!(count(SpaceName::Default, 1, 1, 1), 1);
        assert_eq!(count(SpaceName::Default, 24, 40, 33), 2);
        assert_eq!(count(SpaceName::Default, 256, 256, 256), 6);
        assert_eq!(count(SpaceName::Full, 256, 256, 256), 64);
        assert_eq!(count(SpaceName::Full, 17, 256, 256), 32);
    }
}
