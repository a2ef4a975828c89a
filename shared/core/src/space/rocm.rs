//! Inductor's lists for AMD GPUs of the CDNA line.

use super::SpaceName;
use crate::error::Invalid;
use crate::hardware::Hardware;
use crate::space::launchable;
use crate::space::scaled;
use crate::{Problem, RocmExtras, Tile};

/// Inductor's `mm_configs` for ROCm: block m, n, k, warps, group m, waves per unit.
const DEFAULT: [(u32, u32, u32, u32, u32, u32); 36] = [
    (16, 16, 256, 4, 4, 2),
    (32, 16, 256, 4, 4, 0),
    (32, 32, 16, 4, 8, 2),
    (32, 32, 128, 4, 8, 0),
    (32, 64, 64, 4, 8, 0),
    (64, 16, 128, 4, 8, 2),
    (64, 32, 32, 4, 8, 0),
    (64, 32, 64, 4, 8, 0),
    (64, 32, 64, 8, 8, 0),
    (64, 32, 128, 4, 8, 0),
    (64, 64, 16, 4, 8, 0),
    (64, 64, 64, 4, 4, 0),
    (64, 64, 128, 8, 16, 0),
    (64, 64, 256, 8, 4, 0),
    (64, 128, 32, 4, 4, 2),
    (64, 128, 32, 8, 8, 0),
    (64, 128, 64, 8, 4, 0),
    (64, 128, 128, 8, 4, 0),
    (128, 32, 32, 4, 8, 0),
    (128, 32, 64, 4, 8, 0),
    (128, 64, 32, 4, 8, 2),
    (128, 64, 64, 4, 16, 0),
    (128, 64, 128, 8, 4, 0),
    (128, 128, 32, 4, 16, 2),
    (128, 128, 32, 8, 16, 0),
    (128, 128, 32, 8, 16, 2),
    (128, 128, 64, 4, 16, 0),
    (128, 128, 64, 8, 8, 0),
    (128, 128, 128, 8, 16, 0),
    (128, 256, 32, 4, 16, 2),
    (128, 256, 64, 8, 4, 0),
    (256, 64, 64, 8, 4, 0),
    (256, 128, 32, 4, 4, 2),
    (256, 128, 32, 8, 16, 0),
    (256, 128, 64, 8, 4, 0),
    (256, 256, 64, 8, 4, 0),
];

const BLOCKS: [u32; 5] = [16, 32, 64, 128, 256];
/// The exhaustive list names 1 and 2 stages, but Inductor then compiles both with this number.
const STAGES: u32 = 2;
const WARPS: [u32; 2] = [4, 8];
const GROUPS: [u32; 3] = [4, 8, 16];
/// 16 asks for the 16×16 matrix instructions. 0 lets the compiler choose.
const NONKDIM: [u32; 2] = [0, 16];
const WAVES_PER_EU: [u32; 2] = [0, 2];
const KPACK: u32 = 2;

pub(super) fn tiles(name: SpaceName, hardware: &Hardware, problem: &Problem) -> Result<Vec<Tile>, Invalid> {
    Ok(match name {
        SpaceName::Default => finished(scaled(default(), problem, false)),
        SpaceName::InductorExhaustive => finished(scaled(exhaustive(), problem, true)),
        SpaceName::Full => launchable(finished(exhaustive()), hardware, problem)?,
    })
}

fn default() -> impl Iterator<Item = Tile> {
    DEFAULT
        .into_iter()
        .map(|(m, n, k, warps, group, waves)| tile((m, n, k), warps, group, Extras { nonkdim: 16, waves }))
}

/// Inductor's exhaustive list, in its order. It has 6,000 configs, which become 3,000 because the
/// stages are fixed.
fn exhaustive() -> impl Iterator<Item = Tile> {
    let blocks = BLOCKS
        .into_iter()
        .flat_map(|m| BLOCKS.into_iter().flat_map(move |n| BLOCKS.into_iter().map(move |k| (m, n, k))));
    let extras = NONKDIM
        .into_iter()
        .flat_map(|nonkdim| WAVES_PER_EU.into_iter().map(move |waves| Extras { nonkdim, waves }));
    blocks.flat_map(move |block| {
        let extras = extras.clone();
        WARPS.into_iter().flat_map(move |warps| {
            let extras = extras.clone();
            GROUPS
                .into_iter()
                .flat_map(move |group| extras.clone().map(move |extras| tile(block, warps, group, extras)))
        })
    })
}

/// ROCm's settings under the names of Inductor's lists.
#[derive(Clone, Copy)]
struct Extras {
    nonkdim: u32,
    waves: u32,
}

fn tile((m, n, k): (u32, u32, u32), warps: u32, group_m: u32, extras: Extras) -> Tile {
    let rocm = RocmExtras { matrix_instr_nonkdim: extras.nonkdim, waves_per_eu: extras.waves, kpack: KPACK };
    Tile { group_m, rocm: Some(rocm), ..Tile::new(m, n, k, STAGES, warps) }
}

/// Inductor's last steps. They drop matrix instructions that do not divide the block, and share the
/// requested waves out among the warps of a block.
fn finished(tiles: impl IntoIterator<Item = Tile>) -> Vec<Tile> {
    const WAVES_TO_SHARE: u32 = 8;
    tiles
        .into_iter()
        .filter_map(|mut tile| {
            let rocm = tile.rocm.as_mut()?;
            let nonkdim = rocm.matrix_instr_nonkdim;
            if nonkdim != 0 && !(tile.block_m.is_multiple_of(nonkdim) && tile.block_n.is_multiple_of(nonkdim))
            {
                return None;
            }
            if rocm.waves_per_eu != 0 {
                rocm.waves_per_eu = WAVES_TO_SHARE / tile.num_warps;
            }
            Some(tile)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::find;
    use crate::space::Space;
    use crate::{Config, DType, Op, ProblemFields};

    fn configs(op: Op, name: SpaceName, dtype: DType, (m, n, k): (u64, u64, u64)) -> Vec<Config> {
        let problem = Problem::new(ProblemFields::plain(op, 1, m, n, k, dtype)).unwrap();
        Space::Named(name).configs(&find("amd-mi300x").unwrap(), &problem).unwrap()
    }

    fn count(name: SpaceName, sizes: (u64, u64, u64)) -> usize {
        configs(Op::Mm, name, DType::BFloat16, sizes).len()
    }

    #[test]
    fn counts_equal_inductors_own() {
        for (sizes, default, exhaustive) in [
            ((4096, 4096, 4096), 36, 2400),
            ((1000, 1000, 1000), 36, 2400),
            ((128, 512, 256), 34, 1980),
            ((1, 4096, 4096), 27, 420),
            ((16, 4096, 4096), 27, 420),
            ((64, 64, 64), 21, 432),
            ((128, 128, 4096), 32, 1560),
            ((64, 64, 4096), 24, 720),
            ((256, 256, 16_384), 36, 2400),
        ] {
            assert_eq!(count(SpaceName::Default, sizes), default, "default {sizes:?}");
            assert_eq!(count(SpaceName::InductorExhaustive, sizes), exhaustive, "exhaustive {sizes:?}");
        }
        let batched = configs(Op::Bmm, SpaceName::Default, DType::BFloat16, (4096, 4096, 4096));
        assert_eq!(batched.len(), 36);
        assert!(batched.iter().all(|config| matches!(config, Config::Bmm(_))));
    }

    #[test]
    fn the_exhaustive_list_has_half_of_its_6000_configs_left_with_one_number_of_stages() {
        assert_eq!(exhaustive().count(), 3000);
        assert_eq!(finished(exhaustive()).len(), 3000);
    }

    #[test]
    fn the_full_space_is_what_fits_the_local_memory() {
        let full = |dtype| configs(Op::Mm, SpaceName::Full, dtype, (4096, 4096, 4096));
        // The stage that is in shared memory has (m + n) · k elements, in 64 KiB. There are 25
        // blocks per k. In bf16, 16 of them are too large at k = 256 and 9 at k = 128. Each block
        // has 24 configs.
        assert_eq!(full(DType::BFloat16).len(), 100 * 24);
        // In fp32, 21, 16 and 9 blocks are too large at k = 256, 128 and 64.
        assert_eq!(full(DType::Float32).len(), 79 * 24);
    }

    #[test]
    fn waves_are_shared_among_the_warps() {
        let default = configs(Op::Mm, SpaceName::Default, DType::BFloat16, (4096, 4096, 4096));
        let first = default[0].tile().unwrap();
        assert_eq!((first.block_m, first.block_n, first.block_k), (16, 16, 256));
        assert_eq!((first.num_stages, first.num_warps, first.group_m), (2, 1, 4));
        assert_eq!(first.rocm, Some(RocmExtras { matrix_instr_nonkdim: 16, waves_per_eu: 8, kpack: 2 }));
        let waves = |warps| {
            default
                .iter()
                .filter_map(Config::tile)
                .find(|t| t.block_m == 128 && t.num_warps == warps)
                .unwrap()
        };
        assert_eq!(waves(4).rocm.unwrap().waves_per_eu, 0);
    }
}
