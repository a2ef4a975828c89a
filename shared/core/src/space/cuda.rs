//! Inductor's lists for NVIDIA GPUs.

use crate::alignment::Alignment;
use crate::error::Invalid;
use crate::hardware::Hardware;
use crate::space::{SpaceName, cuda, launchable, scaled};
use crate::{Config, DType, Layout, Problem, Tile};

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

/// Inductor's `persistent_mm_configs`: block m, n, k, stages, warps.
const DEFAULT_TMA: [(u32, u32, u32, u32, u32); 8] = [
    (128, 256, 64, 3, 8),
    (128, 128, 64, 3, 8),
    (128, 128, 128, 3, 8),
    (128, 128, 128, 3, 4),
    (128, 128, 64, 4, 8),
    (128, 128, 64, 5, 8),
    (256, 128, 64, 4, 8),
    (128, 128, 64, 5, 4),
];

/// The configs of `triton::mm_persistent_tma` that Inductor's default or exhaustive search would
/// try. There are none for batches, nor where the accelerator cannot read the operands.
pub fn persistent_tma(exhaustive: bool, problem: &Problem) -> Vec<Config> {
    if problem.op.is_batched() || !problem.op.is_plain() || !tma_readable(problem) {
        return Vec::new();
    }
    let tiles = if exhaustive {
        scaled(cuda::exhaustive().filter(|tile| tile.num_warps != 2), problem, true)
    } else {
        let default = DEFAULT_TMA.into_iter().map(|(m, n, k, s, w)| Tile::new(m, n, k, s, w));
        scaled(default, problem, false)
    };
    tiles.into_iter().map(|tile| Config::PersistentTma(tile.for_k(problem.k))).collect()
}

/// Whether the accelerator can read both operands. Their rows must be aligned to 16 bytes. Rows of
/// one-byte types must also have at least 32 bytes.
pub fn tma_readable(problem: &Problem) -> bool {
    const SHORTEST_ROW: u64 = 32;
    let long_enough = |contiguous: u64, dtype: DType| dtype.size() > 1 || contiguous >= SHORTEST_ROW;
    let a = if problem.a_layout == Layout::Row { problem.k } else { problem.m };
    let b = if problem.b_layout == Layout::Row { problem.n } else { problem.k };
    let alignment = problem.alignment();
    alignment.a == Alignment::Bytes16
        && alignment.b == Alignment::Bytes16
        && long_enough(a, problem.a_dtype)
        && long_enough(b, problem.b_dtype)
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

#[cfg(test)]
mod tma_tests {
    use super::*;
    use crate::{Op, ProblemFields};

    fn count(exhaustive: bool, m: u64, n: u64, k: u64, dtype: DType) -> usize {
        let problem = Problem::new(ProblemFields::plain(Op::Mm, 1, m, n, k, dtype)).unwrap();
        persistent_tma(exhaustive, &problem).len()
    }

    #[test]
    fn counts_equal_inductors_own() {
        for (m, n, k, default, exhaustive) in [
            (4096, 4096, 4096, 8, 1000),
            (1000, 1000, 1000, 8, 1000),
            (128, 512, 256, 7, 825),
            (1, 4096, 4096, 7, 175),
            (16, 4096, 4096, 7, 175),
            (64, 64, 64, 5, 180),
            (128, 128, 4096, 6, 650),
        ] {
            assert_eq!(count(false, m, n, k, DType::BFloat16), default, "default {m}x{n}x{k}");
            assert_eq!(count(true, m, n, k, DType::BFloat16), exhaustive, "exhaustive {m}x{n}x{k}");
        }
    }

    #[test]
    fn what_the_accelerator_cannot_read_is_left_out() {
        assert_eq!(count(false, 17, 33, 70, DType::BFloat16), 0);
        assert_eq!(count(false, 64, 64, 16, DType::Float8E4M3), 0, "rows of 16 bytes");
        assert_ne!(count(false, 64, 64, 32, DType::Float8E4M3), 0);
        let batched = Problem::new(ProblemFields::plain(Op::Bmm, 2, 64, 64, 64, DType::BFloat16)).unwrap();
        assert_eq!(persistent_tma(false, &batched), []);
    }
}
