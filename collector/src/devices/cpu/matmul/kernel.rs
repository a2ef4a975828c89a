//! The innermost loops. They multiply one packed panel of A by one packed panel of B.

use pulp::{Scalar, Simd, WithSimd};

/// Rows of the register block, which is also the width of A's packed strips.
pub(crate) const ROWS: usize = 4;
/// Columns of the register block, which is also the width of B's packed strips.
pub(crate) const COLUMNS: usize = 16;
/// Accumulators of one register block.
pub(crate) const BLOCK: usize = ROWS * COLUMNS;

/// The instructions that this CPU has. They are looked up once, because `cpuid` is slow in virtual
/// machines.
#[derive(Clone, Copy)]
pub(crate) enum Instructions {
    #[cfg(target_arch = "x86_64")]
    Avx2(pulp::x86::V3),
    Baseline,
}

impl Instructions {
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = pulp::x86::V3::try_new() {
            return Self::Avx2(avx2);
        }
        Self::Baseline
    }

    /// Adds A·B to `sums`. The sums are one register block per pair of strips, first for all strips
    /// of B with A's first strip.
    pub(crate) fn multiply(self, panel: Panel<'_>) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(avx2) => Simd::vectorize(avx2, VectorsOf8(panel)),
            Self::Baseline => Simd::vectorize(Scalar::new(), Elementwise(panel)),
        }
    }
}

/// Two packed panels of the same depth, and the sums that their product is added to.
pub(crate) struct Panel<'a> {
    pub(crate) depth: usize,
    pub(crate) a: &'a [f32],
    pub(crate) b: &'a [f32],
    pub(crate) sums: &'a mut [f32],
}

/// For vectors of 8 elements: two vectors make a row of the register block.
#[cfg(target_arch = "x86_64")]
struct VectorsOf8<'a>(Panel<'a>);

#[cfg(target_arch = "x86_64")]
impl WithSimd for VectorsOf8<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        multiply::<S, 2>(simd, self.0);
    }
}

/// For any CPU: the compiler forms the vectors that it can.
struct Elementwise<'a>(Panel<'a>);

impl WithSimd for Elementwise<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        multiply::<S, COLUMNS>(simd, self.0);
    }
}

#[inline(always)]
fn multiply<S: Simd, const VECTORS: usize>(simd: S, panel: Panel<'_>) {
    let Panel { depth, a, b, sums } = panel;
    let row_blocks = a.chunks_exact(ROWS * depth);
    let columns = b.len() / (COLUMNS * depth);
    // One strip of B stays in the first cache level while all strips of A are multiplied by it.
    for (column, b_strip) in b.chunks_exact(COLUMNS * depth).enumerate() {
        for (row, a_strip) in row_blocks.clone().enumerate() {
            let at = (row * columns + column) * BLOCK;
            register_block::<S, VECTORS>(simd, a_strip, b_strip, &mut sums[at..at + BLOCK]);
        }
    }
}

#[inline(always)]
fn register_block<S: Simd, const VECTORS: usize>(simd: S, a: &[f32], b: &[f32], sums: &mut [f32]) {
    let mut accumulators = [[simd.splat_f32s(0.0); VECTORS]; ROWS];
    for (a_column, b_row) in a.chunks_exact(ROWS).zip(b.chunks_exact(COLUMNS)) {
        let (b_row, _) = S::as_simd_f32s(b_row);
        for row in 0..ROWS {
            let a = simd.splat_f32s(a_column[row]);
            for vector in 0..VECTORS {
                accumulators[row][vector] = simd.mul_add_e_f32s(a, b_row[vector], accumulators[row][vector]);
            }
        }
    }
    for (row, sums) in accumulators.iter().zip(sums.chunks_exact_mut(COLUMNS)) {
        let (sums, _) = S::as_mut_simd_f32s(sums);
        for (sum, accumulator) in sums.iter_mut().zip(row) {
            *sum = simd.add_f32s(*sum, *accumulator);
        }
    }
}
