//! The three products of training and the loops around them, with AVX2 where the processor has it.

use pulp::{Scalar, Simd, WithSimd};

/// Rows of a register block; the rows of every product are a multiple of it.
pub(super) const ROWS: usize = 4;
/// Columns of a register block; the columns of every product are a multiple of it.
pub(super) const COLUMNS: usize = 16;

/// The instructions of this processor. Asked once: `cpuid` traps in virtual machines.
#[derive(Debug, Clone, Copy)]
pub(super) struct Instructions {
    #[cfg(target_arch = "x86_64")]
    avx2: Option<pulp::x86::V3>,
}

impl Instructions {
    pub(super) fn detect() -> Self {
        Self {
            #[cfg(target_arch = "x86_64")]
            avx2: pulp::x86::V3::try_new(),
        }
    }

    pub(super) fn multiply(self, product: Product<'_>) {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = self.avx2 {
            return Simd::vectorize(avx2, VectorsOf8(product));
        }
        Simd::vectorize(Scalar::new(), Elementwise(product));
    }

    /// Runs a loop with these instructions; it should be one that the compiler vectorises.
    #[inline(always)]
    pub(super) fn run(self, body: impl FnOnce()) {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = self.avx2 {
            return Simd::vectorize(avx2, Body(body));
        }
        body();
    }
}

struct Body<F>(F);

impl<F: FnOnce()> WithSimd for Body<F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        (self.0)();
    }
}

/// `c[m×n] = a[m×k] · b[k×n]`, the last two row by row.
pub(super) struct Product<'a> {
    pub(super) m: usize,
    pub(super) k: usize,
    pub(super) n: usize,
    pub(super) a: &'a [f32],
    /// From one row of A to the next, and from one column to the next.
    pub(super) a_strides: (usize, usize),
    pub(super) b: &'a [f32],
    pub(super) c: &'a mut [f32],
}

#[cfg(target_arch = "x86_64")]
struct VectorsOf8<'a>(Product<'a>);

#[cfg(target_arch = "x86_64")]
impl WithSimd for VectorsOf8<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        multiply::<S, 2>(simd, self.0);
    }
}

/// For any processor: the compiler forms what vectors it may.
struct Elementwise<'a>(Product<'a>);

impl WithSimd for Elementwise<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        multiply::<S, COLUMNS>(simd, self.0);
    }
}

#[inline(always)]
fn multiply<S: Simd, const VECTORS: usize>(simd: S, product: Product<'_>) {
    let Product { m, k, n, a, a_strides: (a_row, a_column), b, c } = product;
    debug_assert!(m.is_multiple_of(ROWS) && n.is_multiple_of(COLUMNS));
    for column in (0..n).step_by(COLUMNS) {
        for row in (0..m).step_by(ROWS) {
            let mut sums = [[simd.splat_f32s(0.0); VECTORS]; ROWS];
            for step in 0..k {
                let b_at = step * n + column;
                let (b_row, _) = S::as_simd_f32s(&b[b_at..b_at + COLUMNS]);
                for (i, sums) in sums.iter_mut().enumerate() {
                    let a = simd.splat_f32s(a[(row + i) * a_row + step * a_column]);
                    for (sum, &b) in sums.iter_mut().zip(b_row) {
                        *sum = simd.mul_add_e_f32s(a, b, *sum);
                    }
                }
            }
            for (i, sums) in sums.iter().enumerate() {
                let c_at = (row + i) * n + column;
                let (c_row, _) = S::as_mut_simd_f32s(&mut c[c_at..c_at + COLUMNS]);
                c_row.copy_from_slice(sums);
            }
        }
    }
}
