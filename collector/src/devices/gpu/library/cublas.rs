//! Plain multiplications with cuBLAS.

use std::ffi::c_int;
use std::path::Path;
use std::ptr;

use diode_core::Problem;

use super::gemm::Gemm;
use super::{Handle, LibraryError, check};
use crate::devices::gpu::driver::{Gpu, Memory};
use crate::devices::gpu::foreign::{self, functions};
use crate::devices::gpu::operands::Matrices;

/// The versions whose functions have the signatures used here.
const LIBRARIES: [&str; 3] = ["libcublas.so.13", "libcublas.so.12", "libcublas.so.11"];
/// The size of the workspace that torch gives cuBLAS on Hopper.
const WORKSPACE_BYTES: u64 = 32 << 20;
/// Sums are in fp32, and there is no TF32. That is torch's default.
const COMPUTE_32F: c_int = 68;
/// Sums are in fp32, and float32 inputs are rounded to TF32.
const COMPUTE_32F_FAST_TF32: c_int = 77;
const DEFAULT_ALGORITHM: c_int = 99;

functions! {
    /// The functions of cuBLAS.
    Functions {
        create = "cublasCreate_v2" (*mut Handle);
        version = "cublasGetVersion_v2" (Handle, *mut c_int);
        set_workspace = "cublasSetWorkspace_v2" (Handle, u64, usize);
        multiply = "cublasGemmEx" (
            Handle, c_int, c_int, c_int, c_int, c_int, *const f32, u64, c_int, c_int, u64, c_int, c_int, *const f32,
            u64, c_int, c_int, c_int, c_int,
        );
        multiply_batch = "cublasGemmStridedBatchedEx" (
            Handle, c_int, c_int, c_int, c_int, c_int, *const f32, u64, c_int, c_int, i64, u64, c_int, c_int, i64,
            *const f32, u64, c_int, c_int, i64, c_int, c_int, c_int,
        );
    }
}

pub(super) struct Cublas {
    functions: Functions,
    handle: Handle,
    /// The library uses it during multiplications.
    _workspace: Memory,
    pub(super) version: i32,
}

impl Cublas {
    pub(super) fn load(gpu: &Gpu, folder: Option<&Path>) -> Result<Self, LibraryError> {
        let missing =
            |error: libloading::Error| LibraryError::Missing(format!("cuBLAS was not found ({error})"));
        let library = foreign::open(&LIBRARIES, folder, Some("/usr/local/cuda/lib64")).map_err(missing)?;
        let functions = Functions::resolve(library).map_err(missing)?;
        let workspace = gpu.allocate(WORKSPACE_BYTES)?;
        let at = workspace.slice(0, WORKSPACE_BYTES).pointer();
        let (mut handle, mut version): (Handle, c_int) = (ptr::null_mut(), 0);
        let (create, ask, set) = (&functions.create, &functions.version, &functions.set_workspace);
        // SAFETY: the first call writes a handle, the second a number. The workspace lives as long as the
        // handle.
        unsafe {
            check(create.name, (create.function)(&mut handle))?;
            check(ask.name, (ask.function)(handle, &mut version))?;
            check(set.name, (set.function)(handle, at, WORKSPACE_BYTES as usize))?;
        }
        Ok(Self { functions, handle, _workspace: workspace, version })
    }

    /// Queues one multiplication. The output becomes the product plus `kept` times the old output.
    pub(super) fn multiply(
        &self,
        problem: &Problem,
        gemm: &Gemm,
        matrices: &Matrices<'_>,
        kept: f32,
    ) -> Result<(), LibraryError> {
        let one = 1.0_f32;
        let [m, n, k] = [problem.n, problem.m, problem.k].map(|size| size as c_int);
        let (lda, ldb, ldc) = (gemm.ldb as c_int, gemm.lda as c_int, problem.n as c_int);
        let (op_a, op_b) = (c_int::from(gemm.b_transposed), c_int::from(gemm.a_transposed));
        let (t, handle) = (gemm.data_type, self.handle);
        let (a, b, c) = (matrices.b.pointer(), matrices.a.pointer(), matrices.c.pointer());
        let compute = if gemm.rounds { COMPUTE_32F_FAST_TF32 } else { COMPUTE_32F };
        let algorithm = DEFAULT_ALGORITHM;
        if problem.b == 1 {
            let call = &self.functions.multiply;
            // SAFETY: the matrices lie within their allocations, and the two numbers live across the call.
            let status = unsafe {
                (call.function)(
                    handle, op_a, op_b, m, n, k, &one, a, t, lda, b, t, ldb, &kept, c, t, ldc, compute,
                    algorithm,
                )
            };
            return check(call.name, status);
        }
        let stride = |rows: u64, columns: u64| (rows * columns) as i64;
        let (sa, sb) = (stride(problem.k, problem.n), stride(problem.m, problem.k));
        let (sc, batches) = (stride(problem.m, problem.n), problem.b as c_int);
        let call = &self.functions.multiply_batch;
        // SAFETY: as for the call above.
        let status = unsafe {
            (call.function)(
                handle, op_a, op_b, m, n, k, &one, a, t, lda, sa, b, t, ldb, sb, &kept, c, t, ldc, sc,
                batches, compute, algorithm,
            )
        };
        check(call.name, status)
    }
}
