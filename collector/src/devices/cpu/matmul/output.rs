//! The output matrix, which several threads write at once.

use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use diode_core::DType;
use half::{bf16, f16};

/// The output in the problem's type.
///
/// Different threads write the tiles of one row, so the elements are atomics. Relaxed stores are
/// plain stores in machine code. They suffice, because tiles are disjoint and joining the threads
/// makes the stores visible.
pub(crate) enum Output {
    F32(Vec<AtomicU32>),
    F16(Vec<AtomicU16>),
    Bf16(Vec<AtomicU16>),
}

impl Output {
    /// `None` if the CPU backend has no such type.
    pub(crate) fn new(dtype: DType, elements: usize) -> Option<Self> {
        let halves = || (0..elements).map(|_| AtomicU16::new(0)).collect();
        match dtype {
            DType::Float32 => Some(Self::F32((0..elements).map(|_| AtomicU32::new(0)).collect())),
            DType::Float16 => Some(Self::F16(halves())),
            DType::BFloat16 => Some(Self::Bf16(halves())),
            _ => None,
        }
    }

    /// Rounds `values` and stores them at every `step`th element from `start` on.
    pub(crate) fn store(&self, start: usize, step: usize, values: &[f32]) {
        match self {
            Self::F32(out) => {
                for (out, value) in out[start..].iter().step_by(step).zip(values) {
                    out.store(value.to_bits(), Ordering::Relaxed);
                }
            }
            Self::F16(out) => {
                for (out, value) in out[start..].iter().step_by(step).zip(values) {
                    out.store(f16::from_f32(*value).to_bits(), Ordering::Relaxed);
                }
            }
            Self::Bf16(out) => {
                for (out, value) in out[start..].iter().step_by(step).zip(values) {
                    out.store(bf16::from_f32(*value).to_bits(), Ordering::Relaxed);
                }
            }
        }
    }

    pub(crate) fn get(&self, index: usize) -> f32 {
        match self {
            Self::F32(out) => f32::from_bits(out[index].load(Ordering::Relaxed)),
            Self::F16(out) => f16::from_bits(out[index].load(Ordering::Relaxed)).to_f32(),
            Self::Bf16(out) => bf16::from_bits(out[index].load(Ordering::Relaxed)).to_f32(),
        }
    }

    /// Overwrites all elements with NaN. Otherwise an element that a faulty config leaves out could
    /// still hold the right value from the previous config.
    pub(crate) fn poison(&self) {
        match self {
            Self::F32(out) => out.iter().for_each(|e| e.store(f32::NAN.to_bits(), Ordering::Relaxed)),
            Self::F16(out) => out.iter().for_each(|e| e.store(f16::NAN.to_bits(), Ordering::Relaxed)),
            Self::Bf16(out) => out.iter().for_each(|e| e.store(bf16::NAN.to_bits(), Ordering::Relaxed)),
        }
    }
}
