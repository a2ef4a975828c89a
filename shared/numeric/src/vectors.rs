//! Dense layers on eight configs at once, with the widest vectors of the processor.
//!
//! Every sum is added up in the order of the inputs. With AVX2, a product is not rounded before it is added,
//! which halves the time. Logarithms of predicted times then differ from the browser's, but by less than a
//! millionth.

use wide::f32x8;

use crate::math;

/// Outputs that are computed together. A loaded input is used for all of them.
pub(crate) const UNROLL: usize = 8;

/// The instructions of this processor. `cpuid` is called only once, because it is slow in virtual machines.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Instructions {
    #[cfg(target_arch = "x86_64")]
    avx2: Option<pulp::x86::V3>,
}

impl Instructions {
    pub(crate) fn detect() -> Self {
        Self {
            #[cfg(target_arch = "x86_64")]
            avx2: pulp::x86::V3::try_new(),
        }
    }

    /// Adds weights times inputs to a layer's sums, for a whole group of [`UNROLL`] outputs at a time.
    pub(crate) fn apply(self, layer: Layer<'_>, sums: &mut [f32x8]) {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = self.avx2 {
            return pulp::Simd::vectorize(avx2, x86::Apply { layer, sums });
        }
        layer.apply(sums);
    }

    /// Replaces every value by its activation.
    pub(crate) fn silu(self, values: &mut [f32x8]) {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = self.avx2 {
            return pulp::Simd::vectorize(avx2, x86::Silu(values));
        }
        for value in values {
            *value = math::silu(*value);
        }
    }
}

/// The weights of a layer and its inputs.
pub(crate) struct Layer<'a> {
    /// The weights by groups of outputs, and within a group by input.
    pub(crate) weights: &'a [[f32; UNROLL]],
    pub(crate) input: &'a [f32x8],
}

impl Layer<'_> {
    /// Each sum has a variable of its own. Indexed sums would leave the registers and take ten times as long.
    fn apply(&self, sums: &mut [f32x8]) {
        for (sums, weights) in sums.chunks_exact_mut(UNROLL).zip(self.weights.chunks_exact(self.input.len()))
        {
            // Works on half a group at a time. With vectors of four, a sum takes two of the sixteen
            // registers.
            for half in [0, UNROLL / 2] {
                let [mut first, mut second, mut third, mut fourth] =
                    [sums[half], sums[half + 1], sums[half + 2], sums[half + 3]];
                for (&x, w) in self.input.iter().zip(weights) {
                    first += f32x8::splat(w[half]) * x;
                    second += f32x8::splat(w[half + 1]) * x;
                    third += f32x8::splat(w[half + 2]) * x;
                    fourth += f32x8::splat(w[half + 3]) * x;
                }
                sums[half..half + UNROLL / 2].copy_from_slice(&[first, second, third, fourth]);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use pulp::{Simd, WithSimd};
    use wide::{bytemuck, f32x8};

    use super::{Layer, UNROLL};
    use crate::math;

    pub(super) struct Silu<'a>(pub(super) &'a mut [f32x8]);

    impl WithSimd for Silu<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, _: S) {
            let values: &mut [f32] = bytemuck::cast_slice_mut(self.0);
            for value in values {
                *value = math::silu_of_one(*value);
            }
        }
    }

    pub(super) struct Apply<'a> {
        pub(super) layer: Layer<'a>,
        pub(super) sums: &'a mut [f32x8],
    }

    impl WithSimd for Apply<'_> {
        type Output = ();

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            let Layer { weights, input } = self.layer;
            let (input, _) = S::as_simd_f32s(bytemuck::cast_slice(input));
            let (sums, _) = S::as_mut_simd_f32s(bytemuck::cast_slice_mut(self.sums));
            for (group, weights) in sums.chunks_exact_mut(UNROLL).zip(weights.chunks_exact(input.len())) {
                // An array stays in registers, a slice would not.
                let mut sums: [S::f32s; UNROLL] = std::array::from_fn(|at| group[at]);
                for (&x, weights) in input.iter().zip(weights) {
                    for (sum, &weight) in sums.iter_mut().zip(weights) {
                        *sum = simd.mul_add_f32s(simd.splat_f32s(weight), x, *sum);
                    }
                }
                group.copy_from_slice(&sums);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_vectors_agree() {
        let mut state = 1_u32;
        let mut draw = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32 - 0.5
        };
        let input: Vec<f32x8> = (0..71).map(|_| f32x8::from([0.0; 8].map(|_: f32| draw()))).collect();
        let bias: Vec<f32x8> = (0..3 * UNROLL).map(|_| f32x8::splat(draw())).collect();
        let weights: Vec<[f32; UNROLL]> = (0..3 * 71).map(|_| [0.0; UNROLL].map(|_: f32| draw())).collect();
        let layer = || Layer { weights: &weights, input: &input };
        let (mut best, mut plain) = (bias.clone(), bias);
        Instructions::detect().apply(layer(), &mut best);
        layer().apply(&mut plain);
        let pairs = || best.iter().zip(&plain).flat_map(|(a, b)| a.to_array().into_iter().zip(b.to_array()));
        assert!(pairs().all(|(a, b)| (a - b).abs() < 1e-6), "{best:?} {plain:?}");
        // The activation adds nothing up, so its bits are the same.
        let (mut fast, slow) = (plain.clone(), plain.into_iter().map(math::silu));
        Instructions::detect().silu(&mut fast);
        assert_eq!(fast, slow.collect::<Vec<_>>());
    }
}
