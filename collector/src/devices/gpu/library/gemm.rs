//! A problem in the terms of the libraries.

use std::ffi::c_int;

use diode_core::{DType, Layout, Problem};

/// The libraries are column-major. So a call computes the transposed product, whose bytes in memory are
/// the same, and swaps A and B. In this type, A and B are the problem's.
pub(super) struct Gemm {
    pub(super) a_transposed: bool,
    pub(super) b_transposed: bool,
    pub(super) lda: u64,
    pub(super) ldb: u64,
    /// The number of the data type, which is the same for all libraries.
    pub(super) data_type: c_int,
    /// Whether float32 inputs are rounded to TF32.
    pub(super) rounds: bool,
}

impl Gemm {
    pub(super) fn of(problem: &Problem, rounds: bool) -> Option<Self> {
        let data_type = match problem.a_dtype {
            DType::Float32 => 0,
            DType::Float16 => 2,
            DType::BFloat16 => 14,
            _ => return None,
        };
        let (a_transposed, b_transposed) =
            (problem.a_layout == Layout::Column, problem.b_layout == Layout::Column);
        let lda = if a_transposed { problem.m } else { problem.k };
        let ldb = if b_transposed { problem.k } else { problem.n };
        Some(Self { a_transposed, b_transposed, lda, ldb, data_type, rounds })
    }
}
