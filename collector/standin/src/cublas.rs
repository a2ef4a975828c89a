//! cuBLAS and cuBLASLt.
#![allow(non_snake_case, reason = "the vendor names them")]
#![allow(clippy::too_many_arguments, reason = "the vendor chooses them")]

use std::ffi::{c_int, c_void};

use crate::node::{Node, perform};
use crate::number::Number;
use crate::out::put;
use crate::product::{Matrix, Product};
use crate::script::Effect;

const NOT_SUPPORTED: i32 = 15;
const INVALID: i32 = 7;

/// Any handle that is never looked at.
const HANDLE: usize = 0xb1a5;

fn number(kind: c_int) -> Result<Number, i32> {
    match kind {
        0 => Ok(Number::Single),
        2 => Ok(Number::Half),
        14 => Ok(Number::BFloat),
        _ => Err(NOT_SUPPORTED),
    }
}

/// A column-major matrix of the library's, transposed or not, as rows and columns of its own.
fn matrix(address: u64, kind: c_int, transposed: bool, leading: u64, batch: u64) -> Result<Matrix, i32> {
    let (row, column) = if transposed { (leading, 1) } else { (1, leading) };
    Ok(Matrix { address, number: number(kind)?, row, column, batch })
}

fn queue(node: &mut Node, mut product: Product, effect: Option<Effect>) -> Result<(), i32> {
    const LEAST: u64 = 1100;
    product.wrong = effect == Some(Effect::Wrong);
    if let Err(outside) = product.check(&mut node.memory) {
        return Err(node.violation(&format!("the library: {outside}")));
    }
    let mut took = LEAST + product.size.iter().product::<u64>() * 70 / 1000;
    if let Some(Effect::Slow(times)) = effect {
        took = (took as f64 * times) as u64;
    }
    node.clock += took;
    node.pending.add(product, &mut node.memory).map_err(|outside| node.outside(&outside))
}

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
    _compute: c_int,
    _algorithm: c_int,
) -> c_int {
    perform("multiply", |node, effect| {
        let size = [batches, m, n, k].map(|size| size as u64);
        let product = Product {
            size,
            a: matrix(a, a_kind, transpose_a != 0, lda as u64, stride_a as u64)?,
            b: matrix(b, b_kind, transpose_b != 0, ldb as u64, stride_b as u64)?,
            bias: None,
            out: matrix(c, c_kind, false, ldc as u64, stride_c as u64)?,
            // SAFETY: the caller gives a number.
            kept: f64::from(unsafe { beta.read() }),
            wrong: false,
        };
        queue(node, product, effect)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cublasLtCreate(handle: *mut usize) -> c_int {
    perform("light_create", |_, _| {
        put(handle, HANDLE);
        Ok(())
    })
}

/// What a multiplication does beside multiplying.
#[derive(Default)]
struct Description {
    transposed: [c_int; 2],
    epilogue: u32,
    bias: u64,
}

#[unsafe(no_mangle)]
extern "C" fn cublasLtMatmulDescCreate(made: *mut *mut Description, _compute: c_int, _scale: c_int) -> c_int {
    perform("light_description", |_, _| {
        put(made, Box::into_raw(Box::default()));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cublasLtMatmulDescSetAttribute(
    description: *mut Description,
    attribute: c_int,
    value: *const c_void,
    bytes: usize,
) -> c_int {
    perform("light_attribute", |_, _| {
        // SAFETY: the caller gives what `cublasLtMatmulDescCreate` has made.
        let description = unsafe { &mut *description };
        // SAFETY: and a value of as many bytes as he says.
        let value = unsafe {
            match bytes {
                4 => u64::from(value.cast::<u32>().read()),
                8 => value.cast::<u64>().read(),
                _ => return Err(INVALID),
            }
        };
        match attribute {
            3 => description.transposed[0] = value as c_int,
            4 => description.transposed[1] = value as c_int,
            7 => description.epilogue = value as u32,
            8 => description.bias = value,
            _ => return Err(INVALID),
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cublasLtMatmulDescDestroy(description: *mut Description) -> c_int {
    // SAFETY: made by `cublasLtMatmulDescCreate`, and destroyed once.
    drop(unsafe { Box::from_raw(description) });
    0
}

/// A column-major matrix, as the library is told of it.
struct Layout {
    kind: c_int,
    rows: u64,
    columns: u64,
    leading: u64,
}

#[unsafe(no_mangle)]
extern "C" fn cublasLtMatrixLayoutCreate(
    made: *mut *mut Layout,
    kind: c_int,
    rows: u64,
    columns: u64,
    leading: i64,
) -> c_int {
    perform("light_layout", |_, _| {
        put(made, Box::into_raw(Box::new(Layout { kind, rows, columns, leading: leading as u64 })));
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cublasLtMatrixLayoutDestroy(layout: *mut Layout) -> c_int {
    // SAFETY: made by `cublasLtMatrixLayoutCreate`, and destroyed once.
    drop(unsafe { Box::from_raw(layout) });
    0
}

#[unsafe(no_mangle)]
extern "C" fn cublasLtMatmulPreferenceCreate(made: *mut usize) -> c_int {
    put(made, HANDLE);
    0
}

#[unsafe(no_mangle)]
extern "C" fn cublasLtMatmulPreferenceSetAttribute(
    _preference: usize,
    _attribute: c_int,
    _value: *const c_void,
    _bytes: usize,
) -> c_int {
    0
}

#[unsafe(no_mangle)]
extern "C" fn cublasLtMatmulPreferenceDestroy(_preference: usize) -> c_int {
    0
}

#[unsafe(no_mangle)]
extern "C" fn cublasLtMatmulAlgoGetHeuristic(
    _handle: usize,
    _description: *const Description,
    _a: *const Layout,
    _b: *const Layout,
    _c: *const Layout,
    _d: *const Layout,
    _preference: usize,
    _wanted: c_int,
    _found: *mut c_void,
    count: *mut c_int,
) -> c_int {
    perform("light_heuristic", |_, effect| {
        put(count, if effect == Some(Effect::Value(0)) { 0 } else { 1 });
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn cublasLtMatmul(
    _handle: usize,
    description: *const Description,
    _alpha: *const f32,
    a: u64,
    a_layout: *const Layout,
    b: u64,
    b_layout: *const Layout,
    beta: *const f32,
    _c: u64,
    _c_layout: *const Layout,
    d: u64,
    d_layout: *const Layout,
    _algorithm: *const c_void,
    _workspace: u64,
    _workspace_bytes: usize,
    _stream: usize,
) -> c_int {
    const ADD_BIAS: u32 = 4;
    perform("multiply", |node, effect| {
        // SAFETY: the caller gives what the functions above have made.
        let (description, a_layout, b_layout, d_layout) =
            unsafe { (&*description, &*a_layout, &*b_layout, &*d_layout) };
        let [left, right] = description.transposed.map(|operation| operation != 0);
        let depth = if left { a_layout.rows } else { a_layout.columns };
        let wanted = if right { [d_layout.columns, depth] } else { [depth, d_layout.columns] };
        if [b_layout.rows, b_layout.columns] != wanted {
            return Err(INVALID);
        }
        // A vector along the library's rows, which are the caller's columns.
        let bias =
            Matrix { address: description.bias, number: number(d_layout.kind)?, row: 1, column: 0, batch: 0 };
        let product = Product {
            size: [1, d_layout.rows, d_layout.columns, depth],
            a: matrix(a, a_layout.kind, left, a_layout.leading, 0)?,
            b: matrix(b, b_layout.kind, right, b_layout.leading, 0)?,
            bias: (description.epilogue == ADD_BIAS).then_some(bias),
            out: matrix(d, d_layout.kind, false, d_layout.leading, 0)?,
            // SAFETY: the caller gives a number.
            kept: f64::from(unsafe { beta.read() }),
            wrong: false,
        };
        queue(node, product, effect)
    })
}
