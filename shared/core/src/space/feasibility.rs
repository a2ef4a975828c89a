//! Whether the hardware can launch a config.

use crate::hardware::Facts;
use crate::{Problem, Tile};

/// What becomes of a config on some hardware.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feasibility {
    Fits,
    /// Its pipeline needs more shared memory than a block may have.
    SharedMemory,
    /// Its accumulators alone overflow the registers of a thread and spill.
    Spills,
}

/// Judges a tile the way the measured spaces were cut: every stage of the
/// pipeline in shared memory, the accumulators in at most 256 registers.
///
/// Kernels without `wgmma` need one stage less than is counted here. Counting it
/// all the same keeps the space the one that was measured, and leaves room for
/// the epilogue.
pub fn feasibility(facts: &Facts, problem: &Problem, tile: &Tile) -> Feasibility {
    const MAX_ACCUMULATORS: u32 = 256;
    let operand_size = problem.a_dtype.size().max(problem.b_dtype.size());
    let stage = u64::from(tile.block_m + tile.block_n) * u64::from(tile.block_k) * operand_size;
    if stage * u64::from(tile.num_stages) > u64::from(facts.smem_per_block) {
        return Feasibility::SharedMemory;
    }
    if tile.block_m * tile.block_n > MAX_ACCUMULATORS * tile.num_warps * facts.warp_size {
        return Feasibility::Spills;
    }
    Feasibility::Fits
}
