//! The tiles of scaled, grouped and experts kernels: which are timed, and which suit a problem.
//!
//! `lab/serving/configs.py` has the same rules; with them an H200 was measured.

use crate::baselines::experts_tiles;
use crate::hardware::{Hardware, Vendor};
use crate::{Config, DType, Op, Problem, Scaling, Tile};

/// Tiles that published files of vLLM have beside those of the rules: operand bytes, scaling, tile.
const PUBLISHED: [(u64, Scaling, [u32; 5]); 6] = [
    (2, Scaling::None, [16, 32, 64, 2, 4]),
    (2, Scaling::None, [16, 64, 64, 2, 4]),
    (2, Scaling::None, [16, 64, 64, 3, 4]),
    (2, Scaling::None, [16, 64, 64, 4, 8]),
    (1, Scaling::Block, [16, 256, 64, 3, 4]),
    (1, Scaling::Row, [16, 64, 256, 4, 8]),
];
const SIZES: [u32; 5] = [16, 32, 64, 128, 256];
const DEPTHS: [u32; 4] = [64, 128, 256, 512];
/// Bytes of a block's shared memory that are not stages.
const RESERVED: u64 = 1024;
const KIB: u64 = 1024;

/// The configs that suit a problem. Each tile stands once for every width of a group of row blocks, the usual one first.
pub(super) fn configs(hardware: &Hardware, problem: &Problem) -> Vec<Config> {
    let on = Machine {
        shared: hardware.facts.as_ref().map_or(0, |facts| u64::from(facts.smem_per_block)),
        hopper: hardware.vendor == Vendor::Nvidia,
        bytes: problem.a_dtype.size(),
    };
    let mut configs = Vec::new();
    match problem.op {
        Op::ScaledMm => on.scaled(problem.scaling, &mut configs),
        Op::GroupedMm | Op::ScaledGroupedMm => on.grouped(&mut configs),
        _ => on.experts(problem, &mut configs),
    }
    let suits = |config: &Config| config.tile().is_some_and(|tile| suits(tile, problem));
    let groups = groups(problem);
    let group = |config: Config, group_m| match config {
        Config::Mm(tile) => Config::Mm(Tile { group_m, ..tile.for_k(problem.k) }),
        Config::PersistentTma(tile) => Config::PersistentTma(Tile { group_m, ..tile.for_k(problem.k) }),
        other => other,
    };
    let of_one = |config: Config| {
        // One block of rows is always a group.
        let is_alone = problem.op == Op::ScaledMm
            && config.tile().is_some_and(|tile| problem.m <= u64::from(tile.block_m));
        let groups = if is_alone { &groups[..1] } else { groups };
        groups.iter().map(move |&width| group(config, width))
    };
    configs.into_iter().filter(suits).flat_map(of_one).collect()
}

/// The widths of a group of row blocks, the usual one first.
pub fn groups(problem: &Problem) -> &'static [u32] {
    match (problem.op, problem.scaling) {
        (Op::ScaledMm, Scaling::Block) => &[8, 1, 32],
        (Op::ScaledMm, _) => &[8, 1, 4, 16],
        (Op::FusedMoe, _) => &[1, 16, 32, 64],
        _ => &[1],
    }
}

/// Whether vLLM and SGLang swap the operands of a tile by themselves.
pub fn is_swapped(hardware: &Hardware, problem: &Problem, rows: u32, columns: u32) -> bool {
    hardware.vendor == Vendor::Nvidia && problem.op == Op::FusedMoe && swaps(problem.a_dtype, rows, columns)
}

/// Whether the experts' kernel swaps its operands: with fp8 and few rows.
fn swaps(dtype: DType, rows: u32, columns: u32) -> bool {
    dtype.is_fp8() && rows < 64 && columns >= 64
}

/// Whether a tile's height suits a problem's rows.
fn suits(tile: &Tile, problem: &Problem) -> bool {
    let (rows, size) = (f64::from(tile.block_m), problem.m as f64);
    let Some(groups) = problem.groups else {
        return rows <= (2.0 * size).max(64.0)
            && rows >= (size / 8.0).min(64.0)
            && (tile.block_n >= 64 || problem.m <= 512)
            && (tile.block_k < 512 || problem.m <= 128);
    };
    let each = problem.rows() as f64 / f64::from(groups.count);
    rows <= (4.0 * each).max(64.0) && rows >= (each / 8.0).min(64.0)
}

struct Machine {
    /// Bytes of shared memory for a block.
    shared: u64,
    /// Whether operands can be swapped, and copied by the tensor memory accelerator.
    hopper: bool,
    /// Bytes of an operand's element.
    bytes: u64,
}

impl Machine {
    /// Whether shared memory holds the stages, and registers the accumulators. `wgmma` keeps one more stage than
    /// `mma.sync`.
    fn fits(&self, tile: &Tile) -> bool {
        let Tile { block_m, block_n, block_k, num_stages, num_warps, .. } = *tile;
        let wgmma = self.hopper && num_warps >= 4 && (block_m >= 64 || (tile.swap_ab && block_n >= 64));
        let held = u64::from(if wgmma { num_stages } else { num_stages - 1 });
        let each = f64::from(block_m * block_n) / f64::from(32 * num_warps);
        let bytes = held * u64::from(block_m + block_n) * u64::from(block_k) * self.bytes;
        bytes + RESERVED <= self.shared && (2.0..=128.0).contains(&each)
    }

    fn scaled(&self, scaling: Scaling, configs: &mut Vec<Config>) {
        for tile in tiles(&SIZES, &SIZES, &DEPTHS, &[2, 3, 4, 5, 6], &[2, 4, 8]) {
            for swap_ab in [false, true] {
                let tile = Tile { swap_ab, ..tile };
                if self.fits(&tile) && (!swap_ab || self.hopper) && is_scaled(&tile, scaling) {
                    configs.push(Config::Mm(tile));
                }
            }
        }
        if scaling == Scaling::Block || !self.hopper {
            return;
        }
        for tile in tiles(&[64, 128, 256], &[32, 64, 128, 256], &DEPTHS[..3], &[3, 4, 5, 6], &[4, 8]) {
            let Tile { block_m, block_n, block_k, num_stages, num_warps, .. } = tile;
            let area = block_m * block_n;
            let held = u64::from(num_stages * (block_m + block_n) * block_k + 2 * area);
            let deep = match block_k {
                64 => area >= 128 * 256,
                256 => block_n <= 64,
                _ => true,
            };
            let each = f64::from(area) / f64::from(32 * num_warps);
            if held + RESERVED <= self.shared
                && (16.0..=128.0).contains(&each)
                && deep
                && (num_warps == 4 || block_m >= 128)
            {
                configs.push(Config::PersistentTma(tile));
            }
        }
    }

    fn grouped(&self, configs: &mut Vec<Config>) {
        let all = tiles(&SIZES[..4], &SIZES[2..], &DEPTHS[..3], &[2, 3, 4, 5], &[4, 8]);
        let kept: Vec<Tile> = all
            .filter(|tile| {
                let area = tile.block_m * tile.block_n;
                self.fits(tile)
                    && (tile.num_warps == 4 || area >= 4096)
                    && (area <= 16_384 || tile.num_warps == 8)
                    && (tile.block_k < 256 || tile.block_m < 64)
            })
            .collect();
        configs.extend(kept.iter().copied().map(Config::Mm));
        let copied = kept.into_iter().filter(|tile| self.hopper && tile.num_stages > 2);
        configs.extend(copied.map(Config::PersistentTma));
    }

    fn experts(&self, problem: &Problem, configs: &mut Vec<Config>) {
        let block = problem.scaling == Scaling::Block;
        let depths = if block { &DEPTHS[..2] } else { &DEPTHS[..3] };
        let by_rule = tiles(&SIZES, &SIZES[1..], depths, &[2, 3, 4, 5], &[4, 8])
            .filter(|tile| self.is_for_experts(tile));
        let published = PUBLISHED
            .iter()
            .filter(|(bytes, scaling, _)| *bytes == self.bytes && (*scaling == Scaling::Block) == block);
        let published =
            published.map(|(_, _, [m, n, k, stages, warps])| Tile::new(*m, *n, *k, *stages, *warps));
        let mut found: Vec<Tile> = by_rule.chain(published).chain(experts_tiles(problem)).collect();
        found.sort_unstable();
        found.dedup();
        for tile in found {
            let swap_ab = self.hopper && swaps(problem.a_dtype, tile.block_m, tile.block_n);
            let tile = Tile { swap_ab, ..tile };
            if self.fits(&tile) {
                configs.push(Config::Mm(tile));
            }
        }
    }

    fn is_for_experts(&self, tile: &Tile) -> bool {
        let Tile { block_m, block_n, block_k, num_stages, num_warps, .. } = *tile;
        let area = block_m * block_n;
        let tallest = block_k == if self.bytes == 1 { 128 } else { 64 };
        (num_warps == 4 || area >= 2048)
            && (num_warps == 8 || area <= 16_384)
            && (block_m < 256
                || ((block_n == 64 || block_n == 128) && tallest && (num_stages == 3 || num_stages == 4)))
            && (block_k < 256 || area <= 64 * 128)
            && (block_k > 64 || area >= if self.bytes == 2 { 2048 } else { 8192 } || num_stages >= 4)
    }
}

/// Whether a tile of a scaled multiplication is worth timing.
fn is_scaled(tile: &Tile, scaling: Scaling) -> bool {
    let Tile {
        block_m: rows, block_n: columns, block_k: depth, num_stages: stages, num_warps: warps, ..
    } = *tile;
    let (swap, area, narrow) = (tile.swap_ab, rows * columns, rows < 64 || columns < 64);
    let ahead = u64::from((stages - 1) * (rows + columns) * depth);
    let is_default = scaling == Scaling::Block
        && (rows, columns, depth, warps, swap) == (64, 128, 128, 4, false)
        && stages <= 3;
    is_default
        || (!swap || (rows < 64 && (columns == 64 || columns == 128) && warps == 4))
            && (warps != 2 || (rows < 64 && area <= 1024))
            && (warps != 8 || area >= 128 * 128 || (rows < 64 && area >= 4096 && !swap))
            && (warps != 4 || area <= 128 * 128)
            // Less in flight never keeps memory busy.
            && ahead >= if narrow { 24 * KIB } else { 20 * KIB }
            && (depth != 64 || area >= 8192)
            && (depth != 512 || rows + columns <= 96)
            && (depth != 256 || area <= 64 * 128)
            && (rows.max(columns) < 256 || (rows.min(columns) >= 32 && depth <= 128))
            && (stages < 6 || depth <= if swap { 256 } else { 128 })
            && (scaling != Scaling::Block || depth == 128 || (depth == 64 && !swap))
}

fn tiles(
    rows: &'static [u32],
    columns: &'static [u32],
    depths: &'static [u32],
    stages: &'static [u32],
    warps: &'static [u32],
) -> impl Iterator<Item = Tile> {
    rows.iter().flat_map(move |&m| {
        columns.iter().flat_map(move |&n| {
            depths.iter().flat_map(move |&k| {
                stages.iter().flat_map(move |&s| warps.iter().map(move |&w| Tile::new(m, n, k, s, w)))
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::baselines::Baseline;
    use crate::hardware::find;
    use crate::{Groups, ProblemFields, Stage};

    fn problem(op: Op, m: u64, dtype: DType, scaling: Scaling, groups: Option<Groups>) -> Problem {
        let plain = ProblemFields::plain(op, 1, m, 4096, 4096, dtype);
        Problem::new(ProblemFields { scaling, groups, ..plain }).unwrap()
    }

    fn different_tiles(problem: &Problem) -> usize {
        let all = configs(&find("NVIDIA H200").unwrap(), problem);
        assert!(all.iter().all(|config| config.validate().is_ok()));
        let first = groups(problem)[0];
        all.iter().filter(|config| config.tile().unwrap().group_m == first).count()
    }

    #[test]
    fn there_are_as_many_tiles_as_were_timed() {
        let fp8 = DType::Float8E4M3;
        let scaled = |m, scaling| different_tiles(&problem(Op::ScaledMm, m, fp8, scaling, None));
        // All heights suit 128 rows but 512 deep ones.
        assert_eq!(scaled(128, Scaling::Row), 404);
        assert_eq!(scaled(128, Scaling::Tensor), 404);
        assert_eq!(scaled(128, Scaling::Block), 185);
        assert!(scaled(16, Scaling::Row) < 300);
        let experts = |dtype, scaling| {
            let groups = Groups { stage: Some(Stage::Down), ..Groups::routed(8, 2) };
            different_tiles(&problem(Op::FusedMoe, 256, dtype, scaling, Some(groups)))
        };
        assert_eq!(experts(DType::BFloat16, Scaling::None), 258);
        assert_eq!(experts(fp8, Scaling::Block), 196);
        assert_eq!(experts(fp8, Scaling::Row), 276);
        let grouped = problem(Op::GroupedMm, 512, DType::BFloat16, Scaling::None, Some(Groups::routed(8, 2)));
        assert_eq!(different_tiles(&grouped), 265);
    }

    #[test]
    fn the_untuned_config_of_experts_is_among_the_configs() {
        for m in [1, 4, 16, 64, 100, 512, 4096] {
            for (dtype, scaling) in [(DType::BFloat16, Scaling::None), (DType::Float8E4M3, Scaling::Block)] {
                let groups = Groups { stage: Some(Stage::GateUp), ..Groups::routed(128, 8) };
                let problem = problem(Op::FusedMoe, m, dtype, scaling, Some(groups));
                let hardware = find("NVIDIA H200").unwrap();
                let default = Baseline::VllmDefault.config(&hardware, &problem).unwrap();
                let tile = default.tile().unwrap();
                let known = configs(&hardware, &problem);
                assert!(known.contains(&default) || !suits(tile, &problem), "{m} {}", default.label());
            }
        }
    }
}
