//! The functions of cuBLAS.
#![allow(non_snake_case, reason = "the vendor names them")]
#![allow(clippy::too_many_arguments, reason = "the vendor chooses them")]

use std::ffi::c_int;

use crate::library::{HANDLE, matrix, queue};
use crate::memory::put;
use crate::node::perform;
use crate::product::Product;

const INVALID: i32 = 7;
const F32: c_int = 0;
/// Sums in fp32, and the same with float32 inputs that are rounded to TF32.
const COMPUTE: c_int = 68;
const COMPUTE_TF32: c_int = 77;

#[unsafe(no_mangle)]
extern "C" fn cublasCreate_v2(handle: *mut usize) -> c_int {
    perform("library_create", |_, _| {
        put(handle, HANDLE);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cublasGetVersion_v2(_handle: usize, version: *mut c_int) -> c_int {
    perform("library_version", |_, _| {
        put(version, 130_002);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cublasSetWorkspace_v2(_handle: usize, at: u64, bytes: usize) -> c_int {
    perform("library_workspace", |node, _| node.memory.check(at, bytes as u64).map_err(|_| INVALID))
}

#[unsafe(no_mangle)]
extern "C" fn cublasGemmEx(
    handle: usize,
    transpose_a: c_int,
    transpose_b: c_int,
    m: c_int,
    n: c_int,
    k: c_int,
    alpha: *const f32,
    a: u64,
    a_kind: c_int,
    lda: c_int,
    b: u64,
    b_kind: c_int,
    ldb: c_int,
    beta: *const f32,
    c: u64,
    c_kind: c_int,
    ldc: c_int,
    compute: c_int,
    algorithm: c_int,
) -> c_int {
    cublasGemmStridedBatchedEx(
        handle,
        transpose_a,
        transpose_b,
        m,
        n,
        k,
        alpha,
        a,
        a_kind,
        lda,
        0,
        b,
        b_kind,
        ldb,
        0,
        beta,
        c,
        c_kind,
        ldc,
        0,
        1,
        compute,
        algorithm,
    )
}

#[unsafe(no_mangle)]
extern "C" fn cublasGemmStridedBatchedEx(
    _handle: usize,
    transpose_a: c_int,
    transpose_b: c_int,
    m: c_int,
    n: c_int,
    k: c_int,
    _alpha: *const f32,
    a: u64,
    a_kind: c_int,
    lda: c_int,
    stride_a: i64,
    b: u64,
    b_kind: c_int,
    ldb: c_int,
    stride_b: i64,
    beta: *const f32,
    c: u64,
    c_kind: c_int,
    ldc: c_int,
    stride_c: i64,
    batches: c_int,
    compute: c_int,
    _algorithm: c_int,
) -> c_int {
    perform("multiply", |node, effect| {
        if compute != COMPUTE && (compute, a_kind) != (COMPUTE_TF32, F32) {
            return Err(INVALID);
        }
        let size = [batches, m, n, k].map(|size| size as u64);
        let product = Product {
            size,
            a: matrix(a, a_kind, transpose_a != 0, lda as u64, stride_a as u64)?,
            b: matrix(b, b_kind, transpose_b != 0, ldb as u64, stride_b as u64)?,
            bias: None,
            out: matrix(c, c_kind, false, ldc as u64, stride_c as u64)?,
            // SAFETY: the caller gives a pointer to a number.
            kept: f64::from(unsafe { beta.read() }),
            served: None,
            wrong: false,
        };
        queue(node, product, effect)
    })
}
