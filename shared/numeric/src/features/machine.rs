//! The hardware in the units of the features: bytes and operations per µs.

use diode_core::DType;
use diode_core::hardware::Facts;

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
