//! What the features ask of a problem, whatever the config.

use diode_core::Problem;

use super::machine::Machine;

/// The shortest time of any kernel: launch, first loads, last stores.
pub(super) const LAUNCH_US: f32 = 4.0;

/// The sizes of a problem and what they mean on some hardware.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProblemTerms {
    pub(super) b: f32,
    pub(super) m: u64,
    pub(super) n: u64,
    pub(super) k: u64,
    pub(super) a_size: f32,
    pub(super) b_size: f32,
    pub(super) output_bytes: f32,
    pub(super) flops: f32,
    pub(super) bytes: f32,
    pub(super) roofline_us: f32,
    /// What times are predicted relative to.
    pub(super) base_us: f32,
}

impl ProblemTerms {
    pub(super) fn new(machine: &Machine, problem: &Problem) -> Self {
        let (flops, bytes) = (problem.flops() as f32, problem.bytes() as f32);
        let roofline_us = (flops / machine.peak).max(bytes / machine.dram);
        let output_elements = problem.b as f32 * problem.m as f32 * problem.n as f32;
        Self {
            b: problem.b as f32,
            m: problem.m,
            n: problem.n,
            k: problem.k,
            a_size: problem.a_dtype.size() as f32,
            b_size: problem.b_dtype.size() as f32,
            output_bytes: output_elements * problem.out_dtype.size() as f32,
            flops,
            bytes,
            roofline_us,
            base_us: LAUNCH_US + roofline_us,
        }
    }

    /// The columns of the group "the problem", before scaling.
    pub(super) fn columns(&self) -> [f32; 11] {
        let (m, n) = (self.m as f32, self.n as f32);
        [
            m,
            n,
            self.k as f32,
            self.b * m * n,
            self.flops,
            self.bytes,
            self.flops / self.bytes,
            self.roofline_us,
            flag(self.k.is_multiple_of(16)),
            flag(self.n.is_multiple_of(16)),
            flag(self.m == 1),
        ]
    }
}

pub(super) fn flag(condition: bool) -> f32 {
    f32::from(u8::from(condition))
}
