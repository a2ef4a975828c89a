//! Matrix elements as they lie in memory, in the problem's type.

use diode_core::DType;
use half::slice::HalfFloatSliceExt as _;
use half::{bf16, f16};

/// A type whose elements can be widened to f32, the type of all sums.
pub(crate) trait Element: Copy {
    /// Widens `run` into the front of `wide`. `wide` must be at least as long as `run`.
    fn widen(run: &[Self], wide: &mut [f32]);
}

impl Element for f32 {
    #[inline]
    fn widen(run: &[Self], wide: &mut [f32]) {
        wide[..run.len()].copy_from_slice(run);
    }
}

impl Element for f16 {
    #[inline]
    fn widen(run: &[Self], wide: &mut [f32]) {
        run.convert_to_f32_slice(&mut wide[..run.len()]);
    }
}

impl Element for bf16 {
    #[inline]
    fn widen(run: &[Self], wide: &mut [f32]) {
        for (wide, narrow) in wide.iter_mut().zip(run) {
            *wide = f32::from_bits(u32::from(narrow.to_bits()) << 16);
        }
    }
}

/// Elements of one of the supported types.
pub(crate) enum Elements {
    F32(Vec<f32>),
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
}

impl Elements {
    /// Rounds `values` to `dtype`. `None` if the CPU backend has no such type.
    pub(crate) fn collect(dtype: DType, values: impl Iterator<Item = f32>) -> Option<Self> {
        match dtype {
            DType::Float32 => Some(Self::F32(values.collect())),
            DType::Float16 => Some(Self::F16(values.map(f16::from_f32).collect())),
            DType::BFloat16 => Some(Self::Bf16(values.map(bf16::from_f32).collect())),
            _ => None,
        }
    }

    pub(crate) fn get(&self, index: usize) -> f32 {
        match self {
            Self::F32(values) => values[index],
            Self::F16(values) => values[index].to_f32(),
            Self::Bf16(values) => values[index].to_f32(),
        }
    }

    /// Widens elements from `start` on, until `wide` is full.
    pub(crate) fn widen_from(&self, start: usize, wide: &mut [f32]) {
        let range = start..start + wide.len();
        match self {
            Self::F32(values) => f32::widen(&values[range], wide),
            Self::F16(values) => f16::widen(&values[range], wide),
            Self::Bf16(values) => bf16::widen(&values[range], wide),
        }
    }
}
