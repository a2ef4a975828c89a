//! Whether the hardware can launch a config.

use crate::error::Invalid;
use crate::hardware::{Facts, Hardware};
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

/// Judges a tile by the rule that the measured spaces follow: the stages of the pipeline
/// must fit in shared memory, the accumulators in 256 registers.
///
/// On NVIDIA GPUs every stage counts, although kernels without `wgmma` need one
/// less: so the space stays the one that was measured, and there is room for the
/// epilogue. ROCm's compiler holds the last stage in registers; a tile with ROCm's
/// extras is judged by that rule.
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

/// Whether no kernel of this tile can have run: even with a stage less than it names, its operands do not
/// fit in shared memory. Unlike [`feasibility`], which serves to choose, this serves to refuse.
pub fn cannot_have_run(facts: &Facts, problem: &Problem, tile: &Tile) -> bool {
    let stages = tile.num_stages.saturating_sub(1).max(1);
    stage_bytes(problem, tile).saturating_mul(u64::from(stages)) > u64::from(facts.smem_per_block)
}

/// What one stage of the pipeline takes of shared memory.
fn stage_bytes(problem: &Problem, tile: &Tile) -> u64 {
    let operand_size = problem.a_dtype.size().max(problem.b_dtype.size());
    u64::from(tile.block_m + tile.block_n) * u64::from(tile.block_k) * operand_size
}

/// Those of some tiles that the hardware can launch.
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
