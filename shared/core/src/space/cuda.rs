//! Inductor's lists for NVIDIA GPUs.

use super::SpaceName;
use super::feasibility::launchable;
use super::inductor::scaled;
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
        SpaceName::Full => launchable(exhaustive(), hardware, problem)?,
    })
}

fn tile((block_m, block_n, block_k, stages, warps): (u32, u32, u32, u32, u32)) -> Tile {
    Tile::new(block_m, block_n, block_k, stages, warps)
}

/// The 1,875 configs of Inductor's exhaustive list, in its order.
pub(super) fn exhaustive() -> impl Iterator<Item = Tile> {
    BLOCKS.into_iter().flat_map(|m| {
        BLOCKS.into_iter().flat_map(move |n| {
            BLOCKS.into_iter().flat_map(move |k| {
                STAGES.into_iter().flat_map(move |s| WARPS.into_iter().map(move |w| Tile::new(m, n, k, s, w)))
            })
        })
    })
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
