//! What a block of a config takes of an SM. The sizes of the problem do not matter for it.

use wide::f32x8;

use super::lanes::{all, ceil, flag, floor};
use super::machine::Machine;
use super::problem_terms::Operand;
use super::tiles::Tiles;

/// Registers that every thread needs beside accumulators and fragments.
const BASE_REGISTERS: f32 = 40.0;
/// The most registers of a thread. If it needs more, the rest spills to memory.
const MAX_REGISTERS: f32 = 255.0;
/// The fewest registers that compilers give a thread of these kernels.
const MIN_REGISTERS: f32 = 32.0;
/// Registers are allocated in multiples of this number.
const REGISTER_STEP: f32 = 8.0;
/// Bytes of shared memory that the driver keeps for each block.
const RESERVED_SMEM: f32 = 1024.0;
/// Without warp-group instructions, operands pass through registers, at most this much of K at a
/// time.
const FRAGMENT_K: f32 = 32.0;
/// Registers for each byte of these operands: a quarter to hold the byte, and half as much again
/// for operands in flight.
const FRAGMENT_REGISTERS: f32 = 0.375;
/// The SIMD units of an AMD compute unit. `waves_per_eu` is per unit.
const UNITS_PER_SM: f32 = 4.0;

/// What one block takes, for each of eight configs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resources {
    /// Whether the tile is large enough for Hopper's warp-group matrix instructions. On hardware
    /// without these, it still separates large tiles from small ones.
    pub(super) warp_group: f32x8,
    pub(super) accumulators: f32x8,
    pub(super) spilled: f32x8,
    pub(super) registers: f32x8,
    pub(super) smem: f32x8,
    /// How many blocks fit on an SM at once.
    pub(super) occupancy: f32x8,
    /// Bytes that one iteration along K loads.
    pub(super) load: f32x8,
    /// Bytes of these that go straight to shared memory.
    pub(super) copied: f32x8,
    /// How many loads an iteration takes.
    pub(super) loads: f32x8,
    /// The stages, or 1 if nothing is copied straight to shared memory: the kernel is the same for all numbers
    /// then.
    pub(super) stages: f32x8,
    /// The same, but also 1 if only one of the matrices is copied.
    pub(super) stages_of_all: f32x8,
}

impl Resources {
    #[inline(always)]
    pub(super) fn new(machine: &Machine, tiles: &Tiles, a: &Operand, b: &Operand) -> Self {
        let Tiles { block_m, block_n, block_k, stages, warps, rocm, .. } = *tiles;
        let (none, one) = (all(0.0), all(1.0));
        let large = block_m.simd_ge(all(64.0)) & warps.simd_ge(all(4.0));
        let warp_group = if machine.matrix_instructions { flag(large) } else { none };
        let uses_groups = warp_group.simd_gt(none);
        let threads = all(machine.warp_size) * warps;
        let (a_per_k, b_per_k) = (block_m * all(a.size), block_n * all(b.size));
        let per_k = a_per_k + b_per_k;
        let load = per_k * block_k;
        let copied = (a_per_k * all(a.copied) + b_per_k * all(b.copied)) * block_k;
        let stages = if a.copied + b.copied > 0.0 { stages } else { one };
        let stages_of_all = if a.copied * b.copied > 0.0 { stages } else { one };
        let loads = (block_m / all(a.vector) + block_n / all(b.vector)) * block_k;
        // Without warp-group instructions, and always on ROCm, the last stage is in registers.
        let all_stages = (warp_group * (one - rocm)).simd_gt(none);
        let smem = all_stages.select(stages, (stages - one).fast_max(one)) * copied + (load - copied);
        let accumulators = block_m * block_n / threads;
        let fragments = per_k * block_k.fast_min(all(FRAGMENT_K)) / threads * all(FRAGMENT_REGISTERS);
        let waiting = (block_m * all(a.registers) + block_n * all(b.registers)) * block_k / threads;
        let wanted = accumulators + uses_groups.select(none, fragments) + waiting + all(BASE_REGISTERS);
        let registers = wanted.fast_clamp(all(MIN_REGISTERS), all(MAX_REGISTERS));
        let granted = ceil(registers / all(REGISTER_STEP)) * all(REGISTER_STEP) * threads;
        let occupancy = floor(all(machine.smem_per_sm) / (smem + all(RESERVED_SMEM)))
            .fast_min(floor(all(machine.regs_per_sm) / granted))
            .fast_min(floor(all(machine.max_warps) / warps))
            .fast_min(all(machine.max_blocks))
            .fast_max(one);
        // The compiler aims at the waves that were asked for, and at no more.
        let asked = (tiles.waves_per_eu * all(UNITS_PER_SM) / warps).fast_max(one);
        let occupancy = tiles.waves_per_eu.simd_gt(none).select(occupancy.fast_min(asked), occupancy);
        Self {
            warp_group,
            accumulators,
            spilled: (wanted - all(MAX_REGISTERS)).fast_max(none),
            registers,
            smem,
            occupancy,
            load,
            copied,
            loads,
            stages,
            stages_of_all,
        }
    }
}
