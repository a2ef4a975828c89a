//! The library kernel: cuBLAS and cuBLASLt, found at run time, called as torch calls them.
#![allow(unsafe_code, reason = "a foreign function interface; nothing unsafe leaves this module")]

use std::ffi::{c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr;

use diode_core::{Bias, DType, Layout, Problem};
use libloading::{Library, Symbol};

use super::driver::{Gpu, Memory, Slice};
use crate::devices::gpu::operands::Matrices;

type Handle = *mut c_void;

/// What torch gives cuBLAS on Hopper.
const WORKSPACE_BYTES: u64 = 32 << 20;
/// The versions whose functions have the signatures used here.
const VERSIONS: [u32; 3] = [13, 12, 11];

#[derive(Debug, thiserror::Error)]
pub(crate) enum CublasError {
    #[error("{call}: cuBLAS status {status}")]
    Refused { call: &'static str, status: c_int },
    #[error("{0}")]
    Missing(String),
    #[error(transparent)]
    Driver(#[from] super::driver::CudaError),
}

/// Both libraries, ready to multiply.
pub(crate) struct Cublas {
    blas: Library,
    light: Library,
    handle: Handle,
    light_handle: Handle,
    workspace: Memory,
    /// The library's own version number, such as 130002.
    pub(crate) version: i32,
}

/// How a problem is put to cuBLAS, which thinks in columns: it computes the
/// transposed product, whose memory is the same.
struct Gemm {
    op_a: c_int,
    op_b: c_int,
    lda: u64,
    ldb: u64,
    data_type: c_int,
}

impl Gemm {
    fn of(problem: &Problem) -> Option<Self> {
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

/// fp32 sums; and no TF32, which is torch's default.
const COMPUTE_32F: c_int = 68;
const F32: c_int = 0;

macro_rules! call {
    ($library:expr, $symbol:literal, ($($kind:ty),*), ($($argument:expr),* $(,)?)) => {{
        // SAFETY: the signature is that of the cuBLAS reference for versions 11 to 13; pointers
        // lead to living values, and matrices lie within their allocations.
        let status = unsafe {
            let function: Symbol<'_, unsafe extern "C" fn($($kind),*) -> c_int> = $library
                .get(concat!($symbol, "\0").as_bytes())
                .map_err(|error| CublasError::Missing(error.to_string()))?;
            function($($argument),*)
        };
        if status == 0 { Ok(()) } else { Err(CublasError::Refused { call: $symbol, status }) }
    }};
}

impl Cublas {
    /// Loads the libraries from `folder`, or else from where the system finds them.
    pub(crate) fn load(gpu: &Gpu, folder: Option<&Path>) -> Result<Self, CublasError> {
        let light = open("cublasLt", folder)?;
        let blas = open("cublas", folder)?;
        let (mut handle, mut light_handle): (Handle, Handle) = (ptr::null_mut(), ptr::null_mut());
        let mut version: c_int = 0;
        let workspace = gpu.allocate(WORKSPACE_BYTES)?;
        let at = workspace.slice(0, WORKSPACE_BYTES).pointer();
        call!(blas, "cublasCreate_v2", (*mut Handle), (&mut handle))?;
        call!(blas, "cublasGetVersion_v2", (Handle, *mut c_int), (handle, &mut version))?;
        call!(blas, "cublasSetWorkspace_v2", (Handle, u64, usize), (handle, at, WORKSPACE_BYTES as usize))?;
        call!(light, "cublasLtCreate", (*mut Handle), (&mut light_handle))?;
        Ok(Self { blas, light, handle, light_handle, workspace, version })
    }

    /// Whether the library has this multiplication.
    pub(crate) fn supports(problem: &Problem) -> bool {
        let small = [problem.m, problem.n, problem.k].iter().all(|&size| size < 1 << 31);
        small && Gemm::of(problem).is_some()
    }

    /// Queues one multiplication, as `aten::mm`, `addmm`, `bmm` or `baddbmm` do it.
    pub(crate) fn multiply(
        &self,
        gpu: &Gpu,
        problem: &Problem,
        matrices: &Matrices<'_>,
    ) -> Result<(), CublasError> {
        let gemm = Gemm::of(problem).ok_or(CublasError::Refused { call: "cublasGemmEx", status: 15 })?;
        match (problem.bias, matrices.bias) {
            (Bias::Vector, Some(bias)) if problem.b == 1 => {
                self.with_epilogue(problem, &gemm, matrices, bias)
            }
            (Bias::Matrix, Some(bias)) => {
                // torch copies the bias to the output and adds the product to it.
                gpu.copy(matrices.c, bias)?;
                self.plain(problem, &gemm, matrices, 1.0)
            }
            _ => self.plain(problem, &gemm, matrices, 0.0),
        }
    }

    fn plain(
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

    /// A row added to every row of the product, by cuBLASLt's own epilogue.
    fn with_epilogue(
        &self,
        problem: &Problem,
        gemm: &Gemm,
        matrices: &Matrices<'_>,
        bias: Slice<'_>,
    ) -> Result<(), CublasError> {
        const ADD_BIAS: u32 = 4;
        let t = gemm.data_type;
        let description = Description::new(&self.light, COMPUTE_32F, F32)?;
        description.set(TRANSPOSE_A, &gemm.op_b)?;
        description.set(TRANSPOSE_B, &gemm.op_a)?;
        description.set(EPILOGUE, &ADD_BIAS)?;
        description.set(BIAS_POINTER, &bias.pointer())?;
        let shape = |op, rows: u64, columns: u64| if op == 0 { (rows, columns) } else { (columns, rows) };
        let (a_rows, a_columns) = shape(gemm.op_b, problem.n, problem.k);
        let (b_rows, b_columns) = shape(gemm.op_a, problem.k, problem.m);
        let a = MatrixLayout::new(&self.light, t, a_rows, a_columns, gemm.ldb)?;
        let b = MatrixLayout::new(&self.light, t, b_rows, b_columns, gemm.lda)?;
        let c = MatrixLayout::new(&self.light, t, problem.n, problem.m, problem.n)?;
        let algorithm = self.best_algorithm(&description, &a, &b, &c)?;
        let (alpha, beta) = (1.0_f32, 0.0_f32);
        let output = matrices.c.pointer();
        let workspace = self.workspace.slice(0, WORKSPACE_BYTES).pointer();
        call!(
            self.light,
            "cublasLtMatmul",
            (
                Handle,
                Handle,
                *const f32,
                u64,
                Handle,
                u64,
                Handle,
                *const f32,
                u64,
                Handle,
                u64,
                Handle,
                *const Algorithm,
                u64,
                usize,
                Handle
            ),
            (
                self.light_handle,
                description.handle,
                &alpha,
                matrices.b.pointer(),
                a.handle,
                matrices.a.pointer(),
                b.handle,
                &beta,
                output,
                c.handle,
                output,
                c.handle,
                &algorithm.algorithm,
                workspace,
                WORKSPACE_BYTES as usize,
                ptr::null_mut(),
            )
        )
    }

    /// The library's own first choice, which is what torch takes.
    fn best_algorithm(
        &self,
        description: &Description<'_>,
        a: &MatrixLayout<'_>,
        b: &MatrixLayout<'_>,
        c: &MatrixLayout<'_>,
    ) -> Result<Heuristic, CublasError> {
        const MAX_WORKSPACE: c_int = 1;
        const NOT_SUPPORTED: c_int = 15;
        let mut preference: Handle = ptr::null_mut();
        call!(self.light, "cublasLtMatmulPreferenceCreate", (*mut Handle), (&mut preference))?;
        let bytes = WORKSPACE_BYTES as usize;
        let set = call!(
            self.light,
            "cublasLtMatmulPreferenceSetAttribute",
            (Handle, c_int, *const usize, usize),
            (preference, MAX_WORKSPACE, &bytes, size_of::<usize>())
        );
        let mut found = Heuristic::default();
        let mut count: c_int = 0;
        let asked = set.and_then(|()| {
            call!(
                self.light,
                "cublasLtMatmulAlgoGetHeuristic",
                (Handle, Handle, Handle, Handle, Handle, Handle, Handle, c_int, *mut Heuristic, *mut c_int),
                (
                    self.light_handle,
                    description.handle,
                    a.handle,
                    b.handle,
                    c.handle,
                    c.handle,
                    preference,
                    1,
                    &mut found,
                    &mut count,
                )
            )
        });
        call!(self.light, "cublasLtMatmulPreferenceDestroy", (Handle), (preference))?;
        asked?;
        if count == 0 {
            return Err(CublasError::Refused {
                call: "cublasLtMatmulAlgoGetHeuristic",
                status: NOT_SUPPORTED,
            });
        }
        Ok(found)
    }
}

const TRANSPOSE_A: c_int = 3;
const TRANSPOSE_B: c_int = 4;
const EPILOGUE: c_int = 7;
const BIAS_POINTER: c_int = 8;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Algorithm([u64; 8]);

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Heuristic {
    algorithm: Algorithm,
    workspace: usize,
    status: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

struct Description<'a> {
    light: &'a Library,
    handle: Handle,
}

impl<'a> Description<'a> {
    fn new(light: &'a Library, compute: c_int, scale: c_int) -> Result<Self, CublasError> {
        let mut handle: Handle = ptr::null_mut();
        call!(light, "cublasLtMatmulDescCreate", (*mut Handle, c_int, c_int), (&mut handle, compute, scale))?;
        Ok(Self { light, handle })
    }

    fn set<T>(&self, attribute: c_int, value: &T) -> Result<(), CublasError> {
        call!(
            self.light,
            "cublasLtMatmulDescSetAttribute",
            (Handle, c_int, *const c_void, usize),
            (self.handle, attribute, ptr::from_ref(value).cast(), size_of::<T>())
        )
    }
}

impl Drop for Description<'_> {
    fn drop(&mut self) {
        let _: Result<(), CublasError> =
            (|| call!(self.light, "cublasLtMatmulDescDestroy", (Handle), (self.handle)))();
    }
}

struct MatrixLayout<'a> {
    light: &'a Library,
    handle: Handle,
}

impl<'a> MatrixLayout<'a> {
    fn new(light: &'a Library, kind: c_int, rows: u64, columns: u64, ld: u64) -> Result<Self, CublasError> {
        let mut handle: Handle = ptr::null_mut();
        call!(
            light,
            "cublasLtMatrixLayoutCreate",
            (*mut Handle, c_int, u64, u64, i64),
            (&mut handle, kind, rows, columns, ld as i64)
        )?;
        Ok(Self { light, handle })
    }
}

impl Drop for MatrixLayout<'_> {
    fn drop(&mut self) {
        let _: Result<(), CublasError> =
            (|| call!(self.light, "cublasLtMatrixLayoutDestroy", (Handle), (self.handle)))();
    }
}

/// Looks in the given folder alone, or else where the system and CUDA's installer put libraries.
fn open(name: &str, folder: Option<&Path>) -> Result<Library, CublasError> {
    let folders = folder.map_or_else(
        || vec![PathBuf::new(), PathBuf::from("/usr/local/cuda/lib64")],
        |folder| vec![folder.to_owned()],
    );
    for folder in &folders {
        for version in VERSIONS {
            let path = folder.join(format!("lib{name}.so.{version}"));
            // SAFETY: loading NVIDIA's libraries runs their initialisers, which is what they are for.
            if let Ok(library) = unsafe { Library::new(&path) } {
                return Ok(library);
            }
        }
    }
    let place = folder.map_or(String::new(), |folder| format!(" in {}", folder.display()));
    Err(CublasError::Missing(format!("lib{name} was not found{place}")))
}
