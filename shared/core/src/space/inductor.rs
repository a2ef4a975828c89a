//! What Inductor does with every list of configs, on GPUs of all vendors.

use indexmap::IndexSet;

use crate::{Problem, Tile};

/// Clips blocks to the problem, drops tiles that need too many accumulator registers (in exhaustive
/// lists only), lowers the number of warps and removes duplicates.
pub(super) fn scaled(
    tiles: impl Iterator<Item = Tile>,
    problem: &Problem,
    prune_accumulators: bool,
) -> Vec<Tile> {
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
