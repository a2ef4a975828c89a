//! Plain multiplications, by cuBLAS.

use std::ffi::c_int;

use diode_core::{DType, Layout, Problem};
use libloading::Symbol;

use super::{COMPUTE_32F, Cublas, CublasError, Handle};
use crate::devices::gpu::operands::Matrices;

/// How a problem is put to cuBLAS, which is column-major: it computes the
/// transposed product, whose memory is the same.
pub(super) struct Gemm {
    pub(super) op_a: c_int,
    pub(super) op_b: c_int,
    pub(super) lda: u64,
    pub(super) ldb: u64,
    pub(super) data_type: c_int,
}

impl Gemm {
    pub(super) fn of(problem: &Problem) -> Option<Self> {
        let data_type = match problem.a_dtype {
            DType::Float32 => 0,
            DType::Float16 => 2,
            DType::BFloat16 => 14,
            _ => return None,
        };
        let (op_a, lda) = if problem.a_layout == Layout::Row { (0, problem.k) } else { (1, problem.m) };
        let (op_b, ldb) = if problem.b_layout == Layout::Row { (0, problem.n) } else { (1, problem.k) };
        Some(Self { op_a, op_b, lda, ldb, data_type })
    }
}

impl Cublas {
    /// Queues one multiplication, whose result is added to `beta` times the output.
    pub(super) fn plain(
        &self,
        problem: &Problem,
        gemm: &Gemm,
        matrices: &Matrices<'_>,
        beta: f32,
    ) -> Result<(), CublasError> {
        const DEFAULT_ALGORITHM: c_int = 99;
        let alpha = 1.0_f32;
        let [m, n, k] = [problem.n, problem.m, problem.k].map(|size| size as c_int);
        let (lda, ldb, ldc) = (gemm.ldb as c_int, gemm.lda as c_int, problem.n as c_int);
        let t = gemm.data_type;
        let (a, b, c) = (matrices.b.pointer(), matrices.a.pointer(), matrices.c.pointer());
        if problem.b == 1 {
            return call!(
                self.blas,
                "cublasGemmEx",
                (
                    Handle,
                    c_int,
                    c_int,
                    c_int,
                    c_int,
                    c_int,
                    *const f32,
                    u64,
                    c_int,
                    c_int,
                    u64,
                    c_int,
                    c_int,
                    *const f32,
                    u64,
                    c_int,
                    c_int,
                    c_int,
                    c_int
                ),
                (
                    self.handle,
                    gemm.op_b,
                    gemm.op_a,
                    m,
                    n,
                    k,
                    &alpha,
                    a,
                    t,
                    lda,
                    b,
                    t,
                    ldb,
                    &beta,
                    c,
                    t,
                    ldc,
                    COMPUTE_32F,
                    DEFAULT_ALGORITHM,
                )
            );
        }
        let stride = |rows: u64, columns: u64| (rows * columns) as i64;
        let (sa, sb) = (stride(problem.k, problem.n), stride(problem.m, problem.k));
        let (sc, batch) = (stride(problem.m, problem.n), problem.b as c_int);
        call!(
            self.blas,
            "cublasGemmStridedBatchedEx",
            (
                Handle,
                c_int,
                c_int,
                c_int,
                c_int,
                c_int,
                *const f32,
                u64,
                c_int,
                c_int,
                i64,
                u64,
                c_int,
                c_int,
                i64,
                *const f32,
                u64,
                c_int,
                c_int,
                i64,
                c_int,
                c_int,
                c_int
            ),
            (
                self.handle,
                gemm.op_b,
                gemm.op_a,
                m,
                n,
                k,
                &alpha,
                a,
                t,
                lda,
                sa,
                b,
                t,
                ldb,
                sb,
                &beta,
                c,
                t,
                ldc,
                sc,
                batch,
                COMPUTE_32F,
                DEFAULT_ALGORITHM,
            )
        )
    }
}
