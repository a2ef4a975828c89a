//! One row: the raw columns of one config on one problem.

use diode_core::Tile;

use super::columns::COLUMN_COUNT;
use super::machine::Machine;
use super::problem_terms::{LAUNCH_US, ProblemTerms, flag};
use super::resources::Resources;

/// Share of the peak that tiles too small for warp-group instructions reach.
const SMALL_TILE_RATE: f32 = 0.55;
/// Share of the peak that the best kernels sustain under power limits.
const SUSTAINED_PEAK: f32 = 800.0 / 990.0;
/// Share of the cache bandwidth that all SMs together draw in a main loop.
const SUSTAINED_L2: f32 = 5.5 / 7.0;
/// Share of the DRAM bandwidth that can be reached.
const SUSTAINED_DRAM: f32 = 4.5 / 4.8;
/// From issuing a load to using it, µs.
const LOAD_LATENCY_US: f32 = 0.7;
/// To begin and end one round of blocks, µs.
const ROUND_US: f32 = 0.5;
/// Inputs beyond this many cache-fulls are all alike.
const MAX_CACHE_FULLS: f32 = 4.0;

/// Computes the raw columns of one config; logarithms are taken later, many at once.
pub(super) fn raw(
    machine: &Machine,
    problem: &ProblemTerms,
    dims: &[f32; 11],
    tile: &Tile,
) -> [f32; COLUMN_COUNT] {
    let resources = Resources::new(machine, tile, problem.a_size, problem.b_size);
    let cover = Cover::new(problem, tile);
    let fill = Fill::new(machine, &cover, &resources);
    let mut row = [0.0; COLUMN_COUNT];
    let mut rest = row.as_mut_slice();
    put(&mut rest, dims);
    put(&mut rest, &config(tile));
    put(&mut rest, &block(machine, tile, &resources));
    put(&mut rest, &cover.columns(problem, tile));
    put(&mut rest, &fill.columns(&cover, tile));
    put(&mut rest, &times(machine, problem, tile, &resources, &cover, &fill));
    put(&mut rest, &pipeline(machine, problem, tile, &cover));
    debug_assert!(rest.is_empty());
    row
}

/// Writes a group of columns and moves on.
fn put(rest: &mut &mut [f32], group: &[f32]) {
    let (head, tail) = std::mem::take(rest).split_at_mut(group.len());
    head.copy_from_slice(group);
    *rest = tail;
}

fn config(tile: &Tile) -> [f32; 14] {
    let (stages, warps) = (tile.num_stages, tile.num_warps);
    [
        tile.block_m as f32,
        tile.block_n as f32,
        tile.block_k as f32,
        stages as f32,
        warps as f32,
        stages as f32,
        flag(stages == 1),
        flag(stages == 2),
        flag(stages == 3),
        flag(stages == 4),
        flag(stages == 5),
        flag(warps == 2),
        flag(warps == 4),
        flag(warps == 8),
    ]
}

fn block(machine: &Machine, tile: &Tile, resources: &Resources) -> [f32; 9] {
    let (bm, bn) = (tile.block_m as f32, tile.block_n as f32);
    [
        flag(resources.warp_group),
        resources.accumulators,
        resources.spilled / 64.0,
        resources.smem / machine.smem_per_block,
        resources.smem,
        resources.registers / 128.0,
        resources.occupancy,
        bm * bn,
        bm * bn / (bm + bn),
    ]
}

/// How tiles cover the problem.
struct Cover {
    tiles_m: f32,
    tiles_n: f32,
    iterations: f32,
    /// Tiles of all batches.
    tiles: f32,
    efficiency_m: f32,
    efficiency_n: f32,
    efficiency_k: f32,
}

impl Cover {
    fn new(problem: &ProblemTerms, tile: &Tile) -> Self {
        // Blocks are powers of two, so a shift divides.
        let count = |size: u64, block: u32| (((size - 1) >> block.trailing_zeros()) + 1) as f32;
        let tiles_m = count(problem.m, tile.block_m);
        let tiles_n = count(problem.n, tile.block_n);
        let iterations = count(problem.k, tile.block_k);
        Self {
            tiles_m,
            tiles_n,
            iterations,
            tiles: problem.b * tiles_m * tiles_n,
            efficiency_m: problem.m as f32 / (tiles_m * tile.block_m as f32),
            efficiency_n: problem.n as f32 / (tiles_n * tile.block_n as f32),
            efficiency_k: problem.k as f32 / (iterations * tile.block_k as f32),
        }
    }

    fn columns(&self, problem: &ProblemTerms, tile: &Tile) -> [f32; 7] {
        [
            flag(problem.k & u64::from(tile.block_k - 1) == 0),
            self.efficiency_m,
            self.efficiency_n,
            self.efficiency_k,
            self.efficiency_m * self.efficiency_n * self.efficiency_k,
            flag(problem.m < u64::from(tile.block_m)),
            flag(problem.n < u64::from(tile.block_n)),
        ]
    }
}

/// How the tiles fill the hardware.
struct Fill {
    /// Blocks that run at once.
    resident: f32,
    /// Tiles per SM, and the most that one SM gets.
    per_sm: f32,
    most_per_sm: f32,
    /// Times the hardware is filled, and how often it is started.
    fills: f32,
    waves: f32,
    /// Blocks that share an SM.
    active: f32,
    /// Turns an SM takes to run its tiles.
    rounds: f32,
}

impl Fill {
    fn new(machine: &Machine, cover: &Cover, resources: &Resources) -> Self {
        let slots = machine.sms * resources.occupancy;
        let per_sm = cover.tiles / machine.sms;
        let most_per_sm = libm::ceilf(per_sm);
        let fills = cover.tiles / slots;
        let active = resources.occupancy.min(most_per_sm);
        Self {
            resident: cover.tiles.min(slots),
            per_sm,
            most_per_sm,
            fills,
            waves: libm::ceilf(fills),
            active,
            rounds: if most_per_sm <= resources.occupancy { 1.0 } else { most_per_sm / active },
        }
    }

    fn columns(&self, cover: &Cover, tile: &Tile) -> [f32; 14] {
        [
            cover.tiles,
            cover.tiles_m,
            cover.tiles_n,
            cover.iterations,
            self.per_sm,
            self.most_per_sm,
            self.waves,
            self.fills,
            self.fills / self.waves,
            self.per_sm / self.most_per_sm,
            self.active,
            self.active * tile.num_warps as f32,
            self.per_sm.min(1.0),
            self.rounds,
        ]
    }
}

fn times(
    machine: &Machine,
    problem: &ProblemTerms,
    tile: &Tile,
    resources: &Resources,
    cover: &Cover,
    fill: &Fill,
) -> [f32; 13] {
    let (bm, bn, bk) = (tile.block_m as f32, tile.block_n as f32, tile.block_k as f32);
    let stages = tile.num_stages as f32;
    // One iteration of one block: arithmetic, loads, and the latency that the pipeline does not hide.
    let rate = machine.peak / machine.sms * if resources.warp_group { 1.0 } else { SMALL_TILE_RATE };
    let compute = 2.0 * bm * bn * bk / rate;
    let load = resources.load / (machine.l2 * SUSTAINED_L2 / machine.sms);
    let latency = LOAD_LATENCY_US / (stages - 1.0).max(0.7);
    let iteration = (fill.active * compute).max(fill.active * load).max(latency);
    let blocks = fill.rounds * cover.iterations * iteration;
    // Little's law: too few bytes in flight cannot use the DRAM's bandwidth.
    let in_flight = fill.resident * (stages - 1.0).max(0.5) * resources.load;
    let sustained = machine.dram * SUSTAINED_DRAM;
    let bandwidth = sustained.min(in_flight / LOAD_LATENCY_US);
    let dram = problem.bytes / bandwidth;
    // Blocks in flight together form a patch of the output and share its operands.
    let l2_bytes = cover.tiles * cover.iterations * resources.load;
    let rows = cover.tiles_m.min(tile.group_m as f32);
    let columns = (fill.resident / rows).max(1.0).min(cover.tiles_n);
    let batches = (fill.resident / (cover.tiles_m * cover.tiles_n)).max(1.0);
    let patch = (rows * bm * problem.a_size + columns * bn * problem.b_size) * problem.k as f32 * batches;
    let dram_bytes = (fill.waves * patch + problem.output_bytes).max(problem.bytes);
    let useful = cover.efficiency_m * cover.efficiency_n;
    let arithmetic = problem.flops / useful / (machine.peak * SUSTAINED_PEAK);
    let estimate =
        LAUNCH_US + blocks.max(dram).max(l2_bytes / machine.l2).max(arithmetic) + ROUND_US * fill.rounds;
    [
        l2_bytes,
        l2_bytes / problem.bytes,
        dram_bytes / problem.bytes,
        in_flight,
        bandwidth / sustained,
        dram,
        blocks,
        iteration,
        fill.most_per_sm * cover.iterations * compute,
        fill.most_per_sm * cover.iterations * load,
        fill.rounds * cover.iterations * latency,
        estimate,
        estimate / problem.base_us,
    ]
}

fn pipeline(machine: &Machine, problem: &ProblemTerms, tile: &Tile, cover: &Cover) -> [f32; 3] {
    let stages = tile.num_stages as f32;
    [
        flag(cover.iterations < stages),
        cover.iterations / stages,
        (problem.bytes / machine.l2_bytes).min(MAX_CACHE_FULLS),
    ]
}
