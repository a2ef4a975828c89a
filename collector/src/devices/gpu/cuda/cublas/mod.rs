//! The library kernel: cuBLAS and cuBLASLt, found at run time, called as torch calls them.
#![allow(unsafe_code, reason = "a foreign function interface; nothing unsafe leaves this module")]

/// Calls one of a library's functions, which is found by its name.
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

mod gemm;
mod light;

use std::ffi::{c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr;

use diode_core::{Bias, Problem};
use libloading::{Library, Symbol};

use super::driver::{CudaError, Gpu, Memory};
use crate::devices::gpu::operands::Matrices;
use gemm::Gemm;

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
    Driver(#[from] CudaError),
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

/// fp32 sums; and no TF32, which is torch's default.
const COMPUTE_32F: c_int = 68;

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
