//! How raw columns become inputs of a network.

#[cfg(target_arch = "x86_64")]
use wide::bytemuck;
use wide::{f32x8, f32x16};

use super::Task;
use crate::features::{Column, Scale};
use crate::math;

/// Replaces the values of logarithmic columns by their logarithms. Every column has equally many vectors.
pub(crate) struct Log2<'a> {
    pub(crate) values: &'a mut [f32x8],
    pub(crate) columns: &'a [Column],
}

impl<'a> Log2<'a> {
    #[inline(always)]
    fn logarithmic(self) -> impl Iterator<Item = &'a mut [f32x8]> {
        let vectors = self.values.len() / self.columns.len();
        let columns = self.values.chunks_exact_mut(vectors).zip(self.columns);
        columns.filter(|(_, column)| column.scale == Scale::Log2).map(|(values, _)| values)
    }
}

impl Task for Log2<'_> {
    #[inline(never)]
    fn plain(self) {
        for value in self.logarithmic().flatten() {
            *value = math::log2(*value);
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn fast<S: pulp::Simd>(self, _: S) {
        for values in self.logarithmic() {
            for value in bytemuck::cast_slice_mut::<f32x8, f32>(values) {
                *value = math::log2_of_one(*value);
            }
        }
    }
}

/// Inputs are clamped to this many deviations from the mean. Training data is never further out, so a
/// network's outputs would be useless there.
const FURTHEST: f32 = 8.0;

/// Normalises a value with its column's mean and deviation, as the forward pass does.
#[inline(always)]
pub fn normalise(value: f32, mean: f32, std: f32) -> f32 {
    ((value - mean) / std).clamp(-FURTHEST, FURTHEST)
}

/// Normalises columns with their means and deviations.
pub(crate) struct Normalise<'a> {
    pub(crate) columns: &'a mut [f32x16],
    pub(crate) mean: &'a [f32],
    pub(crate) std: &'a [f32],
}

impl Task for Normalise<'_> {
    fn plain(self) {
        let all = f32x16::splat;
        for (column, (&mean, &std)) in self.columns.iter_mut().zip(self.mean.iter().zip(self.std)) {
            let scaled = (*column - all(mean)) / all(std);
            *column = scaled.fast_clamp(all(-FURTHEST), all(FURTHEST));
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn fast<S: pulp::Simd>(self, simd: S) {
        // Written as a loop over numbers, this would be compiled to gathers and scatters.
        let all = |value| simd.splat_f32s(value);
        for (column, (&mean, &std)) in self.columns.iter_mut().zip(self.mean.iter().zip(self.std)) {
            for lanes in S::as_mut_simd_f32s(column.as_mut_array()).0 {
                let scaled = simd.div_f32s(simd.sub_f32s(*lanes, all(mean)), all(std));
                *lanes = simd.max_f32s(all(-FURTHEST), simd.min_f32s(all(FURTHEST), scaled));
            }
        }
    }
}
