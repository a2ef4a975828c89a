//! cuBLAS, cuBLASLt and hipBLASLt: loaded at run time, and called as PyTorch calls them.
#![allow(unsafe_code, reason = "a foreign function interface; nothing unsafe leaves this module")]

mod cublaslt;

use std::ffi::{c_int, c_void};
use std::path::Path;
use std::ptr;

use diode_core::{Bias, DType, Layout, Op, Problem, Scaling};

use crate::devices::gpu::GpuVendor;
use crate::devices::gpu::driver::{Call, DriverError, Gpu, Memory, functions, open_library};
use crate::devices::gpu::library::cublaslt::CublasLt;
use crate::devices::gpu::operands::Matrices;

type Handle = *mut c_void;

#[derive(Debug, thiserror::Error)]
pub(crate) enum LibraryError {
    #[error("{call}: library status {status}")]
    Refused { call: &'static str, status: c_int },
    #[error("{0}")]
    Missing(String),
    #[error(transparent)]
    Driver(#[from] DriverError),
}

/// Calls a function of a library, and turns its status into an error.
fn check<F: Copy>(call: &Call<F>, run: impl FnOnce(F) -> c_int) -> Result<(), LibraryError> {
    match run(call.function) {
        0 => Ok(()),
        status => Err(LibraryError::Refused { call: call.name, status }),
    }
}

/// cuBLAS with cuBLASLt, or hipBLASLt.
pub(crate) struct VendorLibrary {
    /// cuBLASLt or hipBLASLt.
    cublaslt: CublasLt,
    /// cuBLAS, which torch calls on NVIDIA GPUs unless it scales or adds a bias row. On AMD GPUs torch calls
    /// hipBLASLt for everything.
    cublas: Option<Cublas>,
}

impl VendorLibrary {
    /// Loads the libraries from `folder`. Without a folder, the system finds them.
    pub(crate) fn load(vendor: GpuVendor, gpu: &Gpu, folder: Option<&Path>) -> Result<Self, LibraryError> {
        let cublaslt = CublasLt::load(vendor, gpu, folder)?;
        let cublas = match vendor {
            GpuVendor::Nvidia => Some(Cublas::load(gpu, folder)?),
            GpuVendor::Amd => None,
        };
        Ok(Self { cublaslt, cublas })
    }

    /// The version of cuBLAS or hipBLASLt as a number, such as 130002.
    pub(crate) fn version(&self) -> i32 {
        self.cublas.as_ref().map_or(self.cublaslt.version, |cublas| cublas.version)
    }

    /// Whether the problem can be computed. With `rounds`, float32 inputs are rounded to TF32.
    pub(crate) fn supports(&self, problem: &Problem, rounds: bool) -> bool {
        let small = [problem.m, problem.n, problem.k].iter().all(|&size| size < 1 << 31);
        // Only NVIDIA's libraries, which include cuBLAS, are asked to round or to scale.
        let needs_cublas = rounds || problem.scaling != Scaling::None;
        small && Gemm::for_problem(problem, rounds).is_some() && (!needs_cublas || self.cublas.is_some())
    }

    /// Queues one multiplication, like `aten::mm`, `addmm`, `bmm` or `baddbmm`.
    pub(crate) fn multiply(
        &self,
        gpu: &Gpu,
        problem: &Problem,
        rounds: bool,
        matrices: &Matrices<'_>,
    ) -> Result<(), LibraryError> {
        const NOT_SUPPORTED: c_int = 15;
        let unknown = LibraryError::Refused { call: "multiply", status: NOT_SUPPORTED };
        let gemm = Gemm::for_problem(problem, rounds).ok_or(unknown)?;
        match (problem.bias, matrices.bias) {
            (Bias::Vector, Some(bias)) if problem.b == 1 => {
                self.cublaslt.multiply(problem, &gemm, matrices, Some(bias), 0.0)
            }
            (Bias::Matrix, Some(bias)) => {
                // torch copies the bias to the output and adds the product to it.
                gpu.copy(matrices.c, bias)?;
                self.multiply_plain(problem, &gemm, matrices, 1.0)
            }
            _ if problem.scaling != Scaling::None => {
                self.cublaslt.multiply(problem, &gemm, matrices, None, 0.0)
            }
            _ => self.multiply_plain(problem, &gemm, matrices, 0.0),
        }
    }

    /// Queues one multiplication. The output becomes the product plus `kept` times the old output.
    fn multiply_plain(
        &self,
        problem: &Problem,
        gemm: &Gemm,
        matrices: &Matrices<'_>,
        kept: f32,
    ) -> Result<(), LibraryError> {
        match &self.cublas {
            Some(cublas) => cublas.multiply(problem, gemm, matrices, kept),
            None => self.cublaslt.multiply(problem, gemm, matrices, None, kept),
        }
    }
}

/// BLAS is column-major. So a call swaps A and B and computes the transposed product, whose bytes in memory
/// are the same. In this type, A and B are the problem's.
struct Gemm {
    a_transposed: bool,
    b_transposed: bool,
    lda: u64,
    ldb: u64,
    /// A `cudaDataType`; hipBLASLt uses the same numbers.
    data_type: c_int,
    /// The same for the output.
    out_type: c_int,
    /// Whether float32 inputs are rounded to TF32.
    rounds: bool,
}

impl Gemm {
    fn for_problem(problem: &Problem, rounds: bool) -> Option<Self> {
        let data_type = |dtype| match dtype {
            DType::Float32 => Some(0),
            DType::Float16 => Some(2),
            DType::BFloat16 => Some(14),
            DType::Float8E4M3 if problem.op == Op::ScaledMm => Some(28),
            _ => None,
        };
        let (data_type, out_type) = (data_type(problem.a_dtype)?, data_type(problem.out_dtype)?);
        // cuBLASLt needs multiples of four block scales along M and along K.
        let fours = |size: u64| size.is_multiple_of(4);
        let scales = match problem.scaling {
            Scaling::Block => fours(problem.m) && fours(problem.k.div_ceil(Scaling::BLOCK)),
            _ => true,
        };
        if problem.op.is_grouped() || !scales {
            return None;
        }
        let (a_transposed, b_transposed) =
            (problem.a_layout == Layout::Column, problem.b_layout == Layout::Column);
        let lda = if a_transposed { problem.m } else { problem.k };
        let ldb = if b_transposed { problem.k } else { problem.n };
        Some(Self { a_transposed, b_transposed, lda, ldb, data_type, out_type, rounds })
    }
}

/// The versions whose functions have the signatures used here.
const LIBRARIES: [&str; 3] = ["libcublas.so.13", "libcublas.so.12", "libcublas.so.11"];
/// The size of the workspace that torch gives cuBLAS on Hopper.
const WORKSPACE_BYTES: u64 = 32 << 20;
/// Sums are in fp32, and inputs are not rounded: torch's default.
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

struct Cublas {
    functions: Functions,
    handle: Handle,
    /// Only kept alive: cuBLAS uses it during multiplications.
    _workspace: Memory,
    version: i32,
}

impl Cublas {
    fn load(gpu: &Gpu, folder: Option<&Path>) -> Result<Self, LibraryError> {
        let missing =
            |error: libloading::Error| LibraryError::Missing(format!("cuBLAS was not found ({error})"));
        let library = open_library(&LIBRARIES, folder, Some("/usr/local/cuda/lib64")).map_err(missing)?;
        let functions = Functions::resolve(library, GpuVendor::Nvidia).map_err(missing)?;
        let workspace = gpu.allocate(WORKSPACE_BYTES)?;
        let at = workspace.slice(0, WORKSPACE_BYTES).pointer();
        let (mut handle, mut version): (Handle, c_int) = (ptr::null_mut(), 0);
        // SAFETY: writes a handle.
        check(&functions.create, |call| unsafe { call(&mut handle) })?;
        // SAFETY: writes a number.
        check(&functions.version, |call| unsafe { call(handle, &mut version) })?;
        // SAFETY: the workspace lives as long as the handle.
        check(&functions.set_workspace, |call| unsafe { call(handle, at, WORKSPACE_BYTES as usize) })?;
        Ok(Self { functions, handle, _workspace: workspace, version })
    }

    /// Queues one multiplication. The output becomes the product plus `kept` times the old output.
    fn multiply(
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
            // SAFETY: the matrices lie within their allocations, and the two numbers live across the call.
            return check(&self.functions.multiply, |call| unsafe {
                call(
                    handle, op_a, op_b, m, n, k, &one, a, t, lda, b, t, ldb, &kept, c, t, ldc, compute,
                    algorithm,
                )
            });
        }
        let stride = |rows: u64, columns: u64| (rows * columns) as i64;
        let (sa, sb) = (stride(problem.k, problem.n), stride(problem.m, problem.k));
        let (sc, batches) = (stride(problem.m, problem.n), problem.b as c_int);
        // SAFETY: as for the call above.
        check(&self.functions.multiply_batch, |call| unsafe {
            call(
                handle, op_a, op_b, m, n, k, &one, a, t, lda, sa, b, t, ldb, sb, &kept, c, t, ldc, sc,
                batches, compute, algorithm,
            )
        })
    }
}
