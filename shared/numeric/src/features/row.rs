//! The raw columns of eight configs, alone and on a problem. They are scaled later.

use wide::f32x8;

use crate::features::problem_terms::Machine;
use crate::features::problem_terms::Resources;
use crate::features::problem_terms::Tiles;
use crate::features::problem_terms::{LAUNCH_US, ProblemTerms};
use crate::features::{CONFIG_COLUMNS, JOINT_COLUMNS};

/// The share of the peak that tiles reach if they are too small for warp-group instructions.
const SMALL_TILE_RATE: f32 = 0.55;
/// The share of the peak that the best kernels sustain under power limits.
const SUSTAINED_PEAK: f32 = 800.0 / 990.0;
/// The share of the cache bandwidth that all SMs together use in a main loop.
const SUSTAINED_L2: f32 = 5.5 / 7.0;
/// The share of the DRAM bandwidth that can be reached.
const SUSTAINED_DRAM: f32 = 4.5 / 4.8;
/// The time from issuing a load to using its data, in µs.
const LOAD_LATENCY_US: f32 = 0.7;
/// Cycles that a multiprocessor takes for a load of a warp, with its address and mask.
const CYCLES_PER_LOAD: f32 = 3.0;
/// The time to begin and end one round of blocks, in µs.
const ROUND_US: f32 = 0.5;
/// The rate of the matrix instructions that ROCm's compiler chooses by itself, compared with that of
/// the 16×16 instructions. It is assumed, not measured: two candidates that differ only in this must
/// not tie.
const LARGE_INSTRUCTION_RATE: f32 = 0.97;

/// The columns of the groups "the config" and "what the config takes of an SM".
#[inline(always)]
pub(super) fn config(machine: &Machine, tiles: &Tiles, resources: &Resources) -> [f32x8; CONFIG_COLUMNS] {
    let Tiles { block_m, block_n, block_k, warps, .. } = *tiles;
    let stages = resources.stages;
    let is = |value: f32x8, number: f32| flag(value.simd_eq(all(number)));
    [
        block_m,
        block_n,
        block_k,
        stages,
        warps,
        tiles.group_m,
        stages,
        is(stages, 1.0),
        is(stages, 2.0),
        is(stages, 3.0),
        is(stages, 4.0),
        is(stages, 5.0),
        is(warps, 2.0),
        is(warps, 4.0),
        is(warps, 8.0),
        tiles.tf32,
        tiles.nonkdim / all(16.0),
        tiles.waves_per_eu,
        tiles.kpack,
        resources.warp_group,
        resources.accumulators,
        resources.spilled / all(64.0),
        resources.smem / all(machine.smem_per_block),
        resources.smem,
        resources.registers / all(128.0),
        resources.occupancy,
        resources.loads / (all(machine.warp_size) * warps),
        block_m * block_n,
        block_m * block_n / (block_m + block_n),
    ]
}

/// The columns that depend on both config and problem.
#[inline(always)]
pub(super) fn joint(
    machine: &Machine,
    problem: &ProblemTerms,
    tiles: &Tiles,
    resources: &Resources,
) -> [f32x8; JOINT_COLUMNS] {
    let cover = Cover::new(problem, tiles);
    let fill = Fill::new(machine, &cover, resources);
    let estimates = estimates(machine, problem, tiles, resources, &cover, &fill);
    let mut row = [all(0.0); JOINT_COLUMNS];
    let mut rest = row.as_mut_slice();
    put(&mut rest, &cover.columns(problem, tiles));
    put(&mut rest, &fill.columns(&cover, tiles));
    put(&mut rest, &estimates);
    let stages = resources.stages;
    put(&mut rest, &[flag(cover.iterations.simd_lt(stages)), cover.iterations / stages]);
    debug_assert!(rest.is_empty());
    row
}

/// Writes a group of columns and advances.
#[inline(always)]
fn put(rest: &mut &mut [f32x8], group: &[f32x8]) {
    let (head, tail) = std::mem::take(rest).split_at_mut(group.len());
    head.copy_from_slice(group);
    *rest = tail;
}

/// How tiles cover the problem.
struct Cover {
    tiles_m: f32x8,
    tiles_n: f32x8,
    iterations: f32x8,
    /// The number of tiles, over all batches.
    tiles: f32x8,
    efficiency_m: f32x8,
    efficiency_n: f32x8,
    efficiency_k: f32x8,
}

impl Cover {
    #[inline(always)]
    fn new(problem: &ProblemTerms, tiles: &Tiles) -> Self {
        let (m, n, k) = (all(problem.m), all(problem.n), all(problem.k));
        // Blocks are powers of two, so dividing by them is exact.
        let tiles_m = ceil(m / tiles.block_m);
        let tiles_n = ceil(n / tiles.block_n);
        let iterations = ceil(k / tiles.block_k);
        Self {
            tiles_m,
            tiles_n,
            iterations,
            tiles: all(problem.b) * tiles_m * tiles_n,
            efficiency_m: m / (tiles_m * tiles.block_m),
            efficiency_n: n / (tiles_n * tiles.block_n),
            efficiency_k: k / (iterations * tiles.block_k),
        }
    }

    #[inline(always)]
    fn columns(&self, problem: &ProblemTerms, tiles: &Tiles) -> [f32x8; 7] {
        let iterations = all(problem.k) / tiles.block_k;
        [
            flag(floor(iterations).simd_eq(iterations)),
            self.efficiency_m,
            self.efficiency_n,
            self.efficiency_k,
            self.efficiency_m * self.efficiency_n * self.efficiency_k,
            flag(all(problem.m).simd_lt(tiles.block_m)),
            flag(all(problem.n).simd_lt(tiles.block_n)),
        ]
    }
}

/// How the tiles fill the hardware.
struct Fill {
    /// The number of blocks that run at once.
    resident: f32x8,
    /// Tiles per SM on average, and the most that one SM gets.
    per_sm: f32x8,
    most_per_sm: f32x8,
    /// How many times the tiles fill the hardware, and this number rounded up.
    fills: f32x8,
    waves: f32x8,
    /// How many blocks share an SM.
    active: f32x8,
    /// How many rounds of blocks an SM needs for its tiles.
    rounds: f32x8,
}

impl Fill {
    #[inline(always)]
    fn new(machine: &Machine, cover: &Cover, resources: &Resources) -> Self {
        let slots = all(machine.sms) * resources.occupancy;
        let per_sm = cover.tiles / all(machine.sms);
        let most_per_sm = ceil(per_sm);
        let fills = cover.tiles / slots;
        let active = resources.occupancy.fast_min(most_per_sm);
        let together = most_per_sm.simd_le(resources.occupancy);
        Self {
            resident: cover.tiles.fast_min(slots),
            per_sm,
            most_per_sm,
            fills,
            waves: ceil(fills),
            active,
            rounds: together.select(all(1.0), most_per_sm / active),
        }
    }

    #[inline(always)]
    fn columns(&self, cover: &Cover, tiles: &Tiles) -> [f32x8; 14] {
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
            self.active * tiles.warps,
            self.per_sm.fast_min(all(1.0)),
            self.rounds,
        ]
    }
}

#[inline(always)]
fn estimates(
    machine: &Machine,
    problem: &ProblemTerms,
    tiles: &Tiles,
    resources: &Resources,
    cover: &Cover,
    fill: &Fill,
) -> [f32x8; 14] {
    let Tiles { block_m, block_n, block_k, .. } = *tiles;
    let one = all(1.0);
    // The time of one iteration: arithmetic, loads, or the latency that the pipeline does not hide.
    let peak = machine.peak / machine.sms;
    let grouped = resources.warp_group.simd_gt(all(0.0));
    let mut rate = grouped.select(all(peak), all(peak * SMALL_TILE_RATE));
    let compilers_choice = tiles.rocm.simd_gt(tiles.nonkdim);
    rate *= compilers_choice.select(all(LARGE_INSTRUCTION_RATE), one);
    let compute = all(2.0) * block_m * block_n * block_k / rate;
    let load = resources.load / all(machine.l2 * SUSTAINED_L2 / machine.sms);
    let issue = resources.loads * all(CYCLES_PER_LOAD / machine.warp_size / machine.clock);
    let latency = all(LOAD_LATENCY_US) / (resources.stages_of_all - one).fast_max(all(0.7));
    let busy = compute.fast_max(load).fast_max(issue);
    let iteration = (fill.active * busy).fast_max(latency);
    let blocks = fill.rounds * cover.iterations * iteration;
    // By Little's law, the DRAM's full bandwidth needs enough bytes in flight.
    let waiting = resources.load - resources.copied;
    let in_flight =
        fill.resident * ((resources.stages - one).fast_max(all(0.5)) * resources.copied + all(0.5) * waiting);
    let sustained = all(machine.dram * SUSTAINED_DRAM);
    let bandwidth = sustained.fast_min(in_flight / all(LOAD_LATENCY_US));
    let dram = all(problem.bytes) / bandwidth;
    // Blocks that run at once form a patch of the output and share operands.
    let l2_bytes = cover.tiles * cover.iterations * resources.load;
    let rows = cover.tiles_m.fast_min(tiles.group_m);
    let columns = (fill.resident / rows).fast_max(one).fast_min(cover.tiles_n);
    let batches = (fill.resident / (cover.tiles_m * cover.tiles_n)).fast_max(one);
    let patch = (rows * block_m * all(problem.a_operand.size)
        + columns * block_n * all(problem.b_operand.size))
        * all(problem.k)
        * batches;
    let dram_bytes = (fill.waves * patch + all(problem.output_bytes)).fast_max(all(problem.bytes));
    let useful = cover.efficiency_m * cover.efficiency_n;
    let arithmetic = all(problem.flops) / useful / all(machine.peak * SUSTAINED_PEAK);
    let longest = blocks.fast_max(dram).fast_max(l2_bytes / all(machine.l2)).fast_max(arithmetic);
    let estimate = all(LAUNCH_US) + longest + all(ROUND_US) * fill.rounds;
    [
        l2_bytes,
        l2_bytes / all(problem.bytes),
        dram_bytes / all(problem.bytes),
        in_flight,
        bandwidth / sustained,
        dram,
        blocks,
        iteration,
        fill.most_per_sm * cover.iterations * compute,
        fill.most_per_sm * cover.iterations * load,
        fill.most_per_sm * cover.iterations * issue,
        fill.rounds * cover.iterations * latency,
        estimate,
        estimate / all(problem.base_us),
    ]
}

/// The same value for every config.
#[inline(always)]
pub(super) fn all(value: f32) -> f32x8 {
    f32x8::splat(value)
}

/// 1 where a comparison is true, 0 elsewhere.
#[inline(always)]
pub(super) fn flag(mask: f32x8) -> f32x8 {
    mask & all(1.0)
}

/// From this number on, every `f32` is a whole number.
const WHOLE: f32 = 8_388_608.0;

/// Rounds to the nearest whole number. The vector crate's own rounding differs from processor to
/// processor.
#[inline(always)]
fn nearest(x: f32x8) -> f32x8 {
    let near = (x + all(WHOLE)) - all(WHOLE);
    x.simd_lt(all(WHOLE)).select(near, x)
}

/// Rounds up. `x` must not be negative.
#[inline(always)]
pub(super) fn ceil(x: f32x8) -> f32x8 {
    let near = nearest(x);
    near + flag(near.simd_lt(x))
}

/// Rounds down. `x` must not be negative.
#[inline(always)]
pub(super) fn floor(x: f32x8) -> f32x8 {
    let near = nearest(x);
    near - flag(near.simd_gt(x))
}

#[cfg(test)]
mod lanes_tests {
    use super::*;

    #[test]
    fn rounding_is_that_of_the_standard_library() {
        let mut x = 0.0_f32;
        while x < 1e12 {
            for value in [x, x.round(), x.round() + 0.5] {
                assert_eq!(ceil(all(value)).to_array()[0], value.ceil(), "{value}");
                assert_eq!(floor(all(value)).to_array()[0], value.floor(), "{value}");
            }
            x = x * 1.01 + 0.001;
        }
    }
}
