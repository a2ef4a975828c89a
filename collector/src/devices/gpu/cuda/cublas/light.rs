//! Multiplications with an epilogue, by cuBLASLt.

use std::ffi::{c_int, c_void};
use std::ptr;

use diode_core::Problem;
use libloading::{Library, Symbol};

use super::gemm::Gemm;
use super::{COMPUTE_32F, Cublas, CublasError, Handle, WORKSPACE_BYTES};
use crate::devices::gpu::cuda::driver::Slice;
use crate::devices::gpu::operands::Matrices;

const F32: c_int = 0;

impl Cublas {
    /// A row added to every row of the product, by cuBLASLt's own epilogue.
    pub(super) fn with_epilogue(
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
