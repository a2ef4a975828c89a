//! What a config takes of an SM, whatever the sizes of the problem.

use diode_core::Tile;

use super::machine::Machine;

/// Registers every thread needs beside accumulators and fragments.
const BASE_REGISTERS: f32 = 40.0;
/// The most registers a thread can have; more spill to memory.
const MAX_REGISTERS: f32 = 255.0;
/// The fewest that compilers give a thread of these kernels.
const MIN_REGISTERS: f32 = 32.0;
/// Registers are handed out in steps of this many.
const REGISTER_STEP: f32 = 8.0;
/// Shared memory that the driver keeps per block.
const RESERVED_SMEM: f32 = 1024.0;
/// Without warp-group instructions operands pass through registers, at most this
/// much of K at a time …
const FRAGMENT_K: f32 = 32.0;
/// … in this many registers per byte: four bytes each, and half again in flight.
const FRAGMENT_REGISTERS: f32 = 0.375;

/// The resources of one block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resources {
    /// Whether the tile is large enough for Hopper's warp-group matrix
    /// instructions. Where the hardware has none it still tells large from small.
    pub(super) warp_group: bool,
    pub(super) accumulators: f32,
    pub(super) spilled: f32,
    pub(super) registers: f32,
    pub(super) smem: f32,
    /// Blocks that fit on an SM at once.
    pub(super) occupancy: f32,
    /// Bytes one iteration along K loads.
    pub(super) load: f32,
}

impl Resources {
    pub(super) fn new(machine: &Machine, tile: &Tile, a_size: f32, b_size: f32) -> Self {
        let (bm, bn, bk) = (tile.block_m as f32, tile.block_n as f32, tile.block_k as f32);
        let (stages, warps) = (tile.num_stages as f32, tile.num_warps as f32);
        let warp_group = tile.block_m >= 64 && tile.num_warps >= 4;
        let threads = machine.warp_size * warps;
        let per_k = bm * a_size + bn * b_size;
        let load = per_k * bk;
        // ROCm's compiler keeps the last stage in registers, whatever the tile.
        let all_stages = warp_group && tile.rocm.is_none();
        let smem = if all_stages { stages } else { (stages - 1.0).max(1.0) } * load;
        let accumulators = bm * bn / threads;
        let fragments =
            if warp_group { 0.0 } else { per_k * bk.min(FRAGMENT_K) / threads * FRAGMENT_REGISTERS };
        let wanted = accumulators + fragments + BASE_REGISTERS;
        let registers = wanted.clamp(MIN_REGISTERS, MAX_REGISTERS);
        let granted = libm::ceilf(registers / REGISTER_STEP) * REGISTER_STEP * threads;
        let occupancy = libm::floorf(machine.smem_per_sm / (smem + RESERVED_SMEM))
            .min(libm::floorf(machine.regs_per_sm / granted))
            .min(libm::floorf(machine.max_warps / warps))
            .min(machine.max_blocks)
            .max(1.0);
        Self {
            warp_group,
            accumulators,
            spilled: (wanted - MAX_REGISTERS).max(0.0),
            registers,
            smem,
            occupancy,
            load,
        }
    }
}
