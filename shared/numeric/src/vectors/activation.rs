//! The activation between layers: x · sigmoid(x).

use wide::{bytemuck, f32x8, f32x16};

use super::Task;
use crate::math;

/// Replaces every value by its activation.
pub(crate) struct Silu<'a>(pub(crate) &'a mut [f32x16]);

impl Task for Silu<'_> {
    fn plain(self) {
        let values: &mut [f32x8] = bytemuck::cast_slice_mut(self.0);
        for value in values {
            *value = math::silu(*value);
        }
    }

    /// The same as [`math::silu`], but sums of products are rounded once.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn fast<S: pulp::Simd>(self, simd: S) {
        let all = |number| simd.splat_f32s(number);
        for x in S::as_mut_simd_f32s(bytemuck::cast_slice_mut(self.0)).0 {
            let power = simd.mul_f32s(*x, all(-std::f32::consts::LOG2_E));
            let power = simd.min_f32s(all(math::STEEPEST), simd.max_f32s(all(-math::STEEPEST), power));
            let shifted = simd.add_f32s(power, all(math::ROUND));
            let r = simd.sub_f32s(power, simd.sub_f32s(shifted, all(math::ROUND)));
            let mut p = all(math::EXP_2[0]);
            for &coefficient in &math::EXP_2[1..] {
                p = simd.mul_add_f32s(p, r, all(coefficient));
            }
            let exponent = simd.wrapping_dyn_shl_u32s(simd.transmute_u32s_f32s(shifted), simd.splat_u32s(23));
            let e = simd.transmute_f32s_u32s(simd.add_u32s(simd.transmute_u32s_f32s(p), exponent));
            *x = simd.div_f32s(*x, simd.add_f32s(all(1.0), e));
        }
    }
}
