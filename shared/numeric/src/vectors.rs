//! Arithmetic on sixteen configs at once, with the widest vectors of the processor.
//!
//! Every sum is added up in the order of the inputs. With AVX2 and AVX-512, a product is not rounded before it
//! is added, which halves the time. Predicted times then differ from the browser's, but by at most three
//! millionths.

#[cfg(all(test, target_arch = "x86_64"))]
mod tests;

#[cfg(target_arch = "x86_64")]
use pulp::x86::{V3, V4};
use wide::{bytemuck, f32x8, f32x16};

use crate::features::{Column, Scale};
use crate::math;

/// Work on many numbers.
pub(crate) trait Task {
    /// Does the work with vectors of four, which every target has.
    fn plain(self);

    /// Does the work with the vectors of `simd`. The compiler uses AVX2 and AVX-512 only in code that is inlined
    /// here.
    #[cfg(target_arch = "x86_64")]
    fn fast<S: pulp::Simd>(self, simd: S);
}

/// Does the work with the best instructions of this processor.
#[inline(always)]
pub(crate) fn run(task: impl Task) {
    Instructions::best().run(task);
}

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

#[derive(Debug, Clone, Copy)]
enum Instructions {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2(V3),
    #[cfg(target_arch = "x86_64")]
    Avx512(V4),
}

impl Instructions {
    /// All that this processor has, with the best last.
    #[cfg(target_arch = "x86_64")]
    fn all() -> impl Iterator<Item = Self> {
        let avx2 = V3::try_new().map(Self::Avx2);
        let avx512 = V4::try_new().map(Self::Avx512);
        std::iter::once(Self::Plain).chain(avx2).chain(avx512)
    }

    /// The processor is asked only once, because `cpuid` is slow in virtual machines.
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn best() -> Self {
        static BEST: std::sync::OnceLock<Instructions> = std::sync::OnceLock::new();
        *BEST.get_or_init(|| Self::all().last().unwrap_or(Self::Plain))
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn best() -> Self {
        Self::Plain
    }

    #[inline(always)]
    fn run(self, task: impl Task) {
        match self {
            Self::Plain => task.plain(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(simd) => pulp::Simd::vectorize(simd, Fast(task)),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(simd) => pulp::Simd::vectorize(simd, Fast(task)),
        }
    }
}

#[cfg(target_arch = "x86_64")]
struct Fast<T>(T);

#[cfg(target_arch = "x86_64")]
impl<T: Task> pulp::WithSimd for Fast<T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, simd: S) {
        self.0.fast(simd);
    }
}

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
