//! Whether the hardware can launch a config.

use crate::error::Invalid;
use crate::hardware::{Facts, Hardware};
use crate::{Problem, Tile};

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
pub(super) fn launchable(
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
