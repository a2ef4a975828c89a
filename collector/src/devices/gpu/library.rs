//! The library kernel: the vendor's own multiplications. They are found at run time and called as torch
//! calls them.
#![allow(unsafe_code, reason = "a foreign function interface; nothing unsafe leaves this module")]

mod cublas;
mod gemm;
mod light;

use std::ffi::{c_int, c_void};
use std::path::Path;

use diode_core::{Bias, Problem};

use super::driver::{DriverError, Gpu};
use super::operands::Matrices;
use super::vendor::Vendor;
use cublas::Cublas;
use gemm::Gemm;
use light::Light;

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

fn check(call: &'static str, status: c_int) -> Result<(), LibraryError> {
    if status == 0 { Ok(()) } else { Err(LibraryError::Refused { call, status }) }
}

/// A vendor's multiplications, loaded and ready to call.
pub(crate) struct VendorLibrary {
    /// cuBLASLt or hipBLASLt.
    light: Light,
    /// cuBLAS, which torch calls on NVIDIA GPUs if no bias row is added. On AMD GPUs torch calls
    /// hipBLASLt for everything.
    plain: Option<Cublas>,
}

impl VendorLibrary {
    /// Loads the libraries from `folder`. Without a folder, the system finds them.
    pub(crate) fn load(vendor: Vendor, gpu: &Gpu, folder: Option<&Path>) -> Result<Self, LibraryError> {
        let light = Light::load(vendor, gpu, folder)?;
        let plain = match vendor {
            Vendor::Nvidia => Some(Cublas::load(gpu, folder)?),
            Vendor::Amd => None,
        };
        Ok(Self { light, plain })
    }

    /// The library's own version number, such as 130002.
    pub(crate) fn version(&self) -> i32 {
        self.plain.as_ref().map_or(self.light.version, |cublas| cublas.version)
    }

    /// Whether the library can compute this problem. `rounds` asks for float32 that is rounded to TF32, for which
    /// only NVIDIA's libraries are called.
    pub(crate) fn supports(&self, problem: &Problem, rounds: bool) -> bool {
        let small = [problem.m, problem.n, problem.k].iter().all(|&size| size < 1 << 31);
        small && Gemm::of(problem, rounds).is_some() && (!rounds || self.plain.is_some())
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
        let gemm = Gemm::of(problem, rounds).ok_or(unknown)?;
        match (problem.bias, matrices.bias) {
            (Bias::Vector, Some(bias)) if problem.b == 1 => {
                self.light.multiply(problem, &gemm, matrices, Some(bias), 0.0)
            }
            (Bias::Matrix, Some(bias)) => {
                // torch copies the bias to the output and adds the product to it.
                gpu.copy(matrices.c, bias)?;
                self.plain(problem, &gemm, matrices, 1.0)
            }
            _ => self.plain(problem, &gemm, matrices, 0.0),
        }
    }

    /// Queues one multiplication. The output becomes the product plus `kept` times the old output.
    fn plain(
        &self,
        problem: &Problem,
        gemm: &Gemm,
        matrices: &Matrices<'_>,
        kept: f32,
    ) -> Result<(), LibraryError> {
        match &self.plain {
            Some(cublas) => cublas.multiply(problem, gemm, matrices, kept),
            None => self.light.multiply(problem, gemm, matrices, None, kept),
        }
    }
}
