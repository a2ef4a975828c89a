//! The sums of a dense layer.

use wide::{bytemuck, f32x8, f32x16};

use super::Task;

/// Outputs whose weights are stored together. A loaded input is used for several of them.
pub(crate) const UNROLL: usize = if cfg!(target_arch = "x86_64") { 12 } else { PLAIN };
/// Outputs that are computed at once with vectors of four. Their sums take half of the sixteen registers.
const PLAIN: usize = 4;

/// Adds weights times inputs to a layer's sums, for a whole group of [`UNROLL`] outputs at a time.
pub(crate) struct Dense<'a> {
    pub(crate) weights: Weights<'a>,
    pub(crate) input: &'a [f32x16],
    pub(crate) sums: &'a mut [f32x16],
}

/// A layer's weights for its inputs from one on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weights<'a> {
    /// The weights for all inputs, by groups of outputs, and within a group by input.
    pub(crate) of_all: &'a [[f32; UNROLL]],
    /// How many inputs the layer has.
    pub(crate) inputs: usize,
    pub(crate) first: usize,
}

impl<'a> Weights<'a> {
    /// The weights by groups of outputs, each from the first input on.
    #[inline(always)]
    fn groups(self) -> impl Iterator<Item = &'a [[f32; UNROLL]]> {
        self.of_all.chunks_exact(self.inputs).filter_map(move |group| group.get(self.first..))
    }
}

impl Task for Dense<'_> {
    /// Each sum has a variable of its own. Indexed sums would leave the registers and take ten times as long.
    fn plain(self) {
        let input: &[[f32x8; 2]] = bytemuck::cast_slice(self.input);
        let sums: &mut [[f32x8; 2]] = bytemuck::cast_slice_mut(self.sums);
        for (sums, weights) in sums.chunks_exact_mut(UNROLL).zip(self.weights.groups()) {
            for (first, sums) in (0..).step_by(PLAIN).zip(sums.chunks_exact_mut(PLAIN)) {
                for half in 0..2 {
                    let [mut a, mut b, mut c, mut d] =
                        [sums[0][half], sums[1][half], sums[2][half], sums[3][half]];
                    for (x, w) in input.iter().zip(weights) {
                        a += f32x8::splat(w[first]) * x[half];
                        b += f32x8::splat(w[first + 1]) * x[half];
                        c += f32x8::splat(w[first + 2]) * x[half];
                        d += f32x8::splat(w[first + 3]) * x[half];
                    }
                    for (sums, sum) in sums.iter_mut().zip([a, b, c, d]) {
                        sums[half] = sum;
                    }
                }
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn fast<S: pulp::Simd>(self, simd: S) {
        // Twelve sums are in registers at once. AVX2 has sixteen registers, AVX-512 has 32.
        match size_of::<f32x16>() / size_of::<S::f32s>() {
            1 => self.in_registers::<S, 1, UNROLL>(simd),
            _ => self.in_registers::<S, 2, { UNROLL / 2 }>(simd),
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Dense<'_> {
    /// Computes `OUTPUTS` sums at once. Each takes `VECTORS` registers.
    #[inline(always)]
    fn in_registers<S: pulp::Simd, const VECTORS: usize, const OUTPUTS: usize>(self, simd: S) {
        let (input, _) = S::as_simd_f32s(bytemuck::cast_slice(self.input));
        let (sums, _) = S::as_mut_simd_f32s(bytemuck::cast_slice_mut(self.sums));
        let (input, _) = input.as_chunks::<VECTORS>();
        let (sums, _) = sums.as_chunks_mut::<VECTORS>();
        for (sums, weights) in sums.chunks_exact_mut(UNROLL).zip(self.weights.groups()) {
            for (first, sums) in (0..).step_by(OUTPUTS).zip(sums.chunks_exact_mut(OUTPUTS)) {
                // An array stays in registers, a slice would not.
                let mut added: [[S::f32s; VECTORS]; OUTPUTS] = std::array::from_fn(|at| sums[at]);
                for (x, weights) in input.iter().zip(weights) {
                    for (sum, &weight) in added.iter_mut().zip(&weights[first..first + OUTPUTS]) {
                        let weight = simd.splat_f32s(weight);
                        for (sum, &x) in sum.iter_mut().zip(x) {
                            *sum = simd.mul_add_f32s(weight, x, *sum);
                        }
                    }
                }
                sums.copy_from_slice(&added);
            }
        }
    }
}
