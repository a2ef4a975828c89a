//! The terms of the features that depend on the problem, but on no config.

use diode_core::{Alignment, Bias, DType, Layout, Problem};

use super::columns::PROBLEM_COLUMNS;
use super::machine::Machine;

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
            flag(problem.k.is_multiple_of(16)),
            flag(problem.n.is_multiple_of(16)),
            flag(problem.m == 1),
            (self.bytes / machine.l2_bytes).min(MAX_CACHE_FULLS),
            flag(problem.a_layout == Layout::Column),
            flag(problem.b_layout == Layout::Column),
            share(alignment.a),
            share(alignment.b),
            share(alignment.out),
            flag(problem.bias == Bias::Vector),
            flag(problem.bias == Bias::Matrix),
            flag(second_method),
        ]
    }
}

fn flag(condition: bool) -> f32 {
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
