//! Inductor's lists for NVIDIA GPUs.

use indexmap::IndexSet;

use super::SpaceName;
use super::feasibility::{Feasibility, feasibility};
use crate::error::Invalid;
use crate::hardware::Hardware;
use crate::{Problem, Tile};

/// Inductor's `mm_configs`: block m, n, k, stages, warps.
const DEFAULT: [(u32, u32, u32, u32, u32); 20] = [
    (32, 32, 16, 1, 2),
    (32, 32, 128, 2, 4),
    (32, 64, 32, 5, 8),
    (64, 32, 32, 5, 8),
    (64, 32, 128, 5, 4),
    (64, 64, 16, 2, 4),
    (64, 64, 32, 2, 4),
    (64, 64, 64, 3, 8),
    (64, 64, 128, 5, 4),
    (64, 128, 32, 3, 4),
    (64, 128, 32, 4, 8),
    (64, 128, 64, 3, 4),
    (64, 128, 128, 4, 4),
    (128, 64, 32, 3, 4),
    (128, 64, 32, 4, 8),
    (128, 128, 32, 2, 8),
    (128, 128, 32, 3, 4),
    (128, 128, 64, 3, 4),
    (128, 128, 64, 5, 8),
    (128, 128, 128, 4, 8),
];

const BLOCKS: [u32; 5] = [16, 32, 64, 128, 256];
const STAGES: [u32; 5] = [1, 2, 3, 4, 5];
const WARPS: [u32; 3] = [2, 4, 8];

pub(super) fn tiles(name: SpaceName, hardware: &Hardware, problem: &Problem) -> Result<Vec<Tile>, Invalid> {
    Ok(match name {
        SpaceName::Default => scaled(DEFAULT.into_iter().map(tile), problem, false),
        SpaceName::InductorExhaustive => scaled(exhaustive(), problem, true),
        SpaceName::Full => {
            let facts = hardware.facts.as_ref().ok_or_else(|| {
                Invalid::new(
                    "hardware",
                    format_args!("{} without facts", hardware.slug),
                    "known shared memory and registers, to tell what can be launched; use --space default",
                )
            })?;
            exhaustive().filter(|tile| feasibility(facts, problem, tile) == Feasibility::Fits).collect()
        }
    })
}

fn tile((block_m, block_n, block_k, stages, warps): (u32, u32, u32, u32, u32)) -> Tile {
    Tile::new(block_m, block_n, block_k, stages, warps)
}

/// The 1,875 configs of Inductor's exhaustive list, in its order.
fn exhaustive() -> impl Iterator<Item = Tile> {
    BLOCKS.into_iter().flat_map(|m| {
        BLOCKS.into_iter().flat_map(move |n| {
            BLOCKS.into_iter().flat_map(move |k| {
                STAGES.into_iter().flat_map(move |s| WARPS.into_iter().map(move |w| Tile::new(m, n, k, s, w)))
            })
        })
    })
}

/// Inductor's own pipeline: clip blocks to the problem, drop what needs too many
/// accumulator registers (exhaustive only), lower the warps, de-duplicate.
fn scaled(tiles: impl Iterator<Item = Tile>, problem: &Problem, prune_accumulators: bool) -> Vec<Tile> {
    const MAX_ACCUMULATORS: u32 = 255;
    let clip = |size: u64| u32::try_from(size.next_power_of_two()).unwrap_or(u32::MAX).max(16);
    let (max_m, max_n, max_k) = (clip(problem.m), clip(problem.n), clip(problem.k));
    let mut seen = IndexSet::new();
    for mut tile in tiles {
        tile.block_m = tile.block_m.min(max_m);
        tile.block_n = tile.block_n.min(max_n);
        tile.block_k = tile.block_k.min(max_k);
        let area = tile.block_m * tile.block_n;
        if prune_accumulators && area.div_ceil(tile.num_warps * 32) > MAX_ACCUMULATORS {
            continue;
        }
        tile.num_warps = tile.num_warps.min(area / 256);
        seen.insert(tile);
    }
    seen.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::find;
    use crate::space::Space;
    use crate::{DType, Op, ProblemFields};

    fn count(name: SpaceName, m: u64, n: u64, k: u64) -> usize {
        let problem = Problem::new(ProblemFields::plain(Op::Mm, 1, m, n, k, DType::BFloat16)).unwrap();
        Space::Named(name).configs(&find("NVIDIA H200").unwrap(), &problem).unwrap().len()
    }

    #[test]
    fn counts_equal_inductors_own() {
        for (m, n, k, default, exhaustive) in [
            (4096, 4096, 4096, 20, 1400),
            (1000, 1000, 1000, 20, 1400),
            (2048, 11008, 4096, 20, 1400),
            (128, 512, 256, 20, 1175),
            (1, 4096, 4096, 18, 250),
            (16, 4096, 4096, 18, 250),
            (64, 64, 64, 16, 270),
            (17, 33, 70, 16, 200),
            (128, 128, 4096, 20, 950),
        ] {
            assert_eq!(count(SpaceName::Default, m, n, k), default, "default {m}x{n}x{k}");
            assert_eq!(count(SpaceName::InductorExhaustive, m, n, k), exhaustive, "exhaustive {m}x{n}x{k}");
        }
    }

    #[test]
    fn the_full_space_is_what_was_measured_on_the_h200() {
        assert_eq!(count(SpaceName::Full, 4096, 4096, 4096), 1534);
    }
}
