//! The terms of the features that depend on the problem, but on no config.

use diode_core::hardware::Facts;
use diode_core::{Alignment, Bias, DType, Layout, Problem, Tile};
use wide::f32x8;

use crate::features::row::{all, ceil, flag, floor};
use crate::features::{LANES, PROBLEM_COLUMNS};

/// The shortest time of any kernel: its launch, first loads and last stores.
pub(super) const LAUNCH_US: f32 = 4.0;
/// An element that is loaded by itself waits in a register for its store to shared memory, and takes more
/// registers for its address, and for its mask where the end of K cuts rows off. These numbers fit the
/// registers of 4,000 kernels of Triton 3.6 for `sm_90`.
const REGISTERS_ALONG_K: f32 = 2.4;
const REGISTERS_ACROSS_K: f32 = 0.9;
/// Threads of a warp. AMD's GPUs have more.
const NVIDIA_WARP: f32 = 32.0;
/// Inputs count as at most this many times the size of the cache.
const MAX_CACHE_FULLS: f32 = 4.0;

/// How a kernel loads a matrix. The alignment of the matrix's rows decides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Operand {
    /// Bytes per element.
    pub(super) size: f32,
    /// How many elements a load moves.
    pub(super) vector: f32,
    /// 1 if loads go straight to shared memory, so that several stages are in flight, else 0.
    pub(super) copied: f32,
    /// The registers that each element takes of a thread if loads pass through registers.
    pub(super) registers: f32,
}

impl Operand {
    fn new(machine: &Machine, dtype: DType, alignment: Alignment, along_k: bool) -> Self {
        let size = dtype.size() as f32;
        let copied = |bytes| Self { size, vector: bytes / size, copied: 1.0, registers: 0.0 };
        match alignment {
            Alignment::Bytes16 => copied(16.0),
            Alignment::Bytes4 => copied(4.0),
            // What ROCm's compiler does with such rows is not known.
            Alignment::None if machine.warp_size > NVIDIA_WARP => copied(size),
            Alignment::None => {
                let registers = if along_k { REGISTERS_ALONG_K } else { REGISTERS_ACROSS_K };
                Self { size, vector: 1.0, copied: 0.0, registers }
            }
        }
    }
}

/// The sizes of a problem, and what follows from them on some hardware.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProblemTerms {
    pub(super) b: f32,
    pub(super) m: f32,
    pub(super) n: f32,
    pub(super) k: f32,
    pub(super) a_operand: Operand,
    pub(super) b_operand: Operand,
    pub(super) output_bytes: f32,
    pub(super) flops: f32,
    /// The bytes that move at least once, including a bias.
    pub(super) bytes: f32,
    pub(super) roofline_us: f32,
    /// The time to which predictions are relative.
    pub(super) base_us: f32,
}

impl ProblemTerms {
    pub(super) fn new(machine: &Machine, problem: &Problem) -> Self {
        let [b, m, n, k] = [problem.b, problem.m, problem.n, problem.k].map(|size| size as f32);
        let alignment = problem.alignment();
        let output_bytes = b * m * n * problem.out_dtype.size() as f32;
        let bias_bytes = match problem.bias {
            Bias::None => 0.0,
            Bias::Vector => b * n * problem.out_dtype.size() as f32,
            Bias::Matrix => output_bytes,
        };
        let (flops, bytes) = (problem.flops() as f32, problem.bytes() as f32 + bias_bytes);
        let roofline_us = (flops / machine.peak).max(bytes / machine.dram);
        Self {
            b,
            m,
            n,
            k,
            a_operand: Operand::new(machine, problem.a_dtype, alignment.a, problem.a_layout == Layout::Row),
            b_operand: Operand::new(
                machine,
                problem.b_dtype,
                alignment.b,
                problem.b_layout == Layout::Column,
            ),
            output_bytes,
            flops,
            bytes,
            roofline_us,
            base_us: LAUNCH_US + roofline_us,
        }
    }

    /// The columns of the group "the problem", not scaled yet.
    pub(super) fn columns(
        &self,
        machine: &Machine,
        problem: &Problem,
        second_method: bool,
    ) -> [f32; PROBLEM_COLUMNS] {
        let alignment = problem.alignment();
        [
            self.b,
            self.m,
            self.n,
            self.k,
            self.b * self.m * self.n,
            self.flops,
            self.bytes,
            self.flops / self.bytes,
            self.roofline_us,
            self.a_operand.size,
            one_if(problem.k.is_multiple_of(16)),
            one_if(problem.n.is_multiple_of(16)),
            one_if(problem.m == 1),
            (self.bytes / machine.l2_bytes).min(MAX_CACHE_FULLS),
            one_if(problem.a_layout == Layout::Column),
            one_if(problem.b_layout == Layout::Column),
            share(alignment.a),
            share(alignment.b),
            share(alignment.out),
            one_if(problem.bias == Bias::Vector),
            one_if(problem.bias == Bias::Matrix),
            one_if(second_method),
        ]
    }
}

fn one_if(condition: bool) -> f32 {
    f32::from(u8::from(condition))
}

/// 1 for full vector loads, 0.5 for asynchronous copies of 4 bytes, 0 for loads of single elements.
fn share(alignment: Alignment) -> f32 {
    match alignment {
        Alignment::Bytes16 => 1.0,
        Alignment::Bytes4 => 0.5,
        Alignment::None => 0.0,
    }
}

/// The facts of the hardware that features need, for one arithmetic rate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Machine {
    pub(super) sms: f32,
    /// Operations per µs of the whole device, at its quoted peak.
    pub(super) peak: f32,
    /// Whether `peak` is the rate of matrix instructions, and not of single multiplications.
    pub(super) matrix_instructions: bool,
    /// Bytes per µs from DRAM.
    pub(super) dram: f32,
    /// Bytes per µs from the last-level cache.
    pub(super) l2: f32,
    pub(super) l2_bytes: f32,
    pub(super) smem_per_sm: f32,
    pub(super) smem_per_block: f32,
    pub(super) regs_per_sm: f32,
    pub(super) max_warps: f32,
    pub(super) max_blocks: f32,
    pub(super) warp_size: f32,
    /// Cycles per µs.
    pub(super) clock: f32,
}

impl Machine {
    /// `None` if the hardware has no peak for the type.
    pub(super) fn new(facts: &Facts, dtype: DType, allow_tf32: bool) -> Option<Self> {
        let peak = facts.peak(dtype, allow_tf32)?;
        let ieee = match dtype {
            DType::Float32 => !allow_tf32,
            DType::Float64 => true,
            _ => false,
        };
        Some(Self {
            sms: facts.sms as f32,
            peak: (peak.0 * 1e6) as f32,
            matrix_instructions: !ieee,
            dram: (facts.dram_gbps * 1e3) as f32,
            l2: (facts.l2_gbps * 1e3) as f32,
            l2_bytes: facts.l2_bytes as f32,
            smem_per_sm: facts.smem_per_sm as f32,
            smem_per_block: facts.smem_per_block as f32,
            regs_per_sm: facts.regs_per_sm as f32,
            max_warps: facts.max_warps_per_sm as f32,
            max_blocks: facts.max_blocks_per_sm as f32,
            warp_size: facts.warp_size as f32,
            clock: facts.peak_clock_mhz as f32,
        })
    }
}

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

/// The parameters of up to eight tiles. Unused lanes repeat the last tile.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tiles {
    pub(super) block_m: f32x8,
    pub(super) block_n: f32x8,
    pub(super) block_k: f32x8,
    pub(super) stages: f32x8,
    pub(super) warps: f32x8,
    pub(super) group_m: f32x8,
    pub(super) tf32: f32x8,
    /// 1 for tiles with ROCm's extras, because they are compiled by other rules.
    pub(super) rocm: f32x8,
    pub(super) nonkdim: f32x8,
    pub(super) waves_per_eu: f32x8,
    pub(super) kpack: f32x8,
}

impl Tiles {
    /// Takes at least one tile. Tiles beyond [`LANES`] are left out.
    pub(super) fn new(tiles: &[&Tile]) -> Self {
        let lanes = |of: fn(&Tile) -> f32| {
            let mut values = [0.0; LANES];
            for (lane, value) in values.iter_mut().enumerate() {
                *value = of(tiles[lane.min(tiles.len() - 1)]);
            }
            f32x8::from(values)
        };
        Self {
            block_m: lanes(|t| t.block_m as f32),
            block_n: lanes(|t| t.block_n as f32),
            block_k: lanes(|t| t.block_k as f32),
            stages: lanes(|t| t.num_stages as f32),
            warps: lanes(|t| t.num_warps as f32),
            group_m: lanes(|t| t.group_m as f32),
            tf32: lanes(|t| f32::from(u8::from(t.allow_tf32))),
            rocm: lanes(|t| f32::from(u8::from(t.rocm.is_some()))),
            nonkdim: lanes(|t| t.rocm.map_or(0.0, |r| r.matrix_instr_nonkdim as f32)),
            waves_per_eu: lanes(|t| t.rocm.map_or(0.0, |r| r.waves_per_eu as f32)),
            kpack: lanes(|t| t.rocm.map_or(0.0, |r| r.kpack as f32)),
        }
    }
}
