//! The functions of cuBLASLt and hipBLASLt. They are the same, with different names and numbers.
#![allow(non_snake_case, reason = "the vendors name them")]
#![allow(clippy::too_many_arguments, reason = "the vendors choose them")]

use std::ffi::{c_int, c_void};

use crate::library::{HANDLE, matrix, number, queue};
use crate::memory::put;
use crate::node::{Node, perform};
use crate::product::{Matrix, Product, Row, Scales, Served};
use crate::script::Effect;

const INVALID: i32 = 7;
const NOT_SUPPORTED: i32 = 15;
const ADD_BIAS: u32 = 4;
const FAST_SUMS: c_int = 25;

/// The constants of a library: an operand as it is and transposed; sums in fp32, also with inputs that are rounded to TF32; the attributes of a
/// multiplication (two operands, epilogue, bias); the attributes of a matrix (batches and their distance).
struct Numbers {
    operations: [u64; 2],
    compute: &'static [c_int],
    attributes: [c_int; 4],
    layout: [c_int; 2],
}

const CUBLAS: Numbers =
    Numbers { operations: [0, 1], compute: &[68, 77], attributes: [3, 4, 7, 8], layout: [5, 6] };
const HIPBLAS: Numbers =
    Numbers { operations: [111, 112], compute: &[2], attributes: [0, 1, 2, 3], layout: [0, 1] };

fn numbers(node: &Node) -> &'static Numbers {
    if node.gpu().is_amd() { &HIPBLAS } else { &CUBLAS }
}

/// What a multiplication does besides multiplying.
#[derive(Default)]
struct Description {
    transposed: [bool; 2],
    epilogue: u32,
    bias: u64,
    /// Where the scales of both operands are, and how they are laid out.
    scales: [u64; 2],
    modes: [u64; 2],
}

/// A column-major matrix, as the caller described it.
struct Layout {
    kind: c_int,
    rows: u64,
    columns: u64,
    leading: u64,
    batches: u64,
    distance: u64,
}

/// Declares functions. Each has a name for scripts, NVIDIA's name and AMD's name.
macro_rules! functions {
    ($($call:ident = $cuda:ident, $hip:ident ($($argument:ident: $kind:ty),* $(,)?) |$node:pat_param, $effect:pat_param| $body:block)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $cuda($($argument: $kind),*) -> c_int {
                perform(stringify!($call), |$node, $effect| $body)
            }

            #[unsafe(no_mangle)]
            extern "C" fn $hip($($argument: $kind),*) -> c_int {
                perform(stringify!($call), |$node, $effect| $body)
            }
        )*
    };
}

functions! {
    light_create = cublasLtCreate, hipblasLtCreate (handle: *mut usize) |_, _| {
        put(handle, HANDLE);
        Ok(())
    }

    light_description = cublasLtMatmulDescCreate, hipblasLtMatmulDescCreate (
        made: *mut *mut Description, compute: c_int, _scale: c_int,
    ) |node, _| {
        if !numbers(node).compute.contains(&compute) {
            return Err(INVALID);
        }
        put(made, Box::into_raw(Box::default()));
        Ok(())
    }

    light_attribute = cublasLtMatmulDescSetAttribute, hipblasLtMatmulDescSetAttribute (
        description: *mut Description, attribute: c_int, value: *const c_void, bytes: usize,
    ) |node, _| {
        // SAFETY: the caller gives what the function above has made.
        let description = unsafe { &mut *description };
        let value = read(value, bytes)?;
        let Numbers { operations, attributes, .. } = numbers(node);
        match attributes.iter().position(|&number| number == attribute) {
            Some(operand @ (0 | 1)) if operations.contains(&value) => {
                description.transposed[operand] = value == operations[1];
            }
            Some(2) => description.epilogue = value as u32,
            Some(3) => description.bias = value,
            None if !node.gpu().is_amd() => match attribute {
                17 | 18 => description.scales[attribute as usize - 17] = value,
                31 | 32 => description.modes[attribute as usize - 31] = value,
                FAST_SUMS => {}
                _ => return Err(INVALID),
            },
            _ => return Err(INVALID),
        }
        Ok(())
    }

    light_forget = cublasLtMatmulDescDestroy, hipblasLtMatmulDescDestroy (description: *mut Description) |_, _| {
        // SAFETY: a function above has made it, and it is destroyed once.
        drop(unsafe { Box::from_raw(description) });
        Ok(())
    }

    light_layout = cublasLtMatrixLayoutCreate, hipblasLtMatrixLayoutCreate (
        made: *mut *mut Layout, kind: c_int, rows: u64, columns: u64, leading: i64,
    ) |_, _| {
        let layout = Layout { kind, rows, columns, leading: leading as u64, batches: 1, distance: 0 };
        put(made, Box::into_raw(Box::new(layout)));
        Ok(())
    }

    light_layout_attribute = cublasLtMatrixLayoutSetAttribute, hipblasLtMatrixLayoutSetAttribute (
        layout: *mut Layout, attribute: c_int, value: *const c_void, bytes: usize,
    ) |node, _| {
        // SAFETY: the caller gives what the function above has made.
        let layout = unsafe { &mut *layout };
        let value = read(value, bytes)?;
        match numbers(node).layout.iter().position(|&number| number == attribute) {
            Some(0) => layout.batches = value,
            Some(1) => layout.distance = value,
            _ => return Err(INVALID),
        }
        Ok(())
    }

    light_layout_forget = cublasLtMatrixLayoutDestroy, hipblasLtMatrixLayoutDestroy (layout: *mut Layout) |_, _| {
        // SAFETY: a function above has made it, and it is destroyed once.
        drop(unsafe { Box::from_raw(layout) });
        Ok(())
    }

    light_preference = cublasLtMatmulPreferenceCreate, hipblasLtMatmulPreferenceCreate (made: *mut usize) |_, _| {
        put(made, HANDLE);
        Ok(())
    }

    light_preference_attribute = cublasLtMatmulPreferenceSetAttribute, hipblasLtMatmulPreferenceSetAttribute (
        _preference: usize, attribute: c_int, value: *const c_void, bytes: usize,
    ) |_, _| {
        const MAX_WORKSPACE: c_int = 1;
        read(value, bytes)?;
        if attribute == MAX_WORKSPACE { Ok(()) } else { Err(INVALID) }
    }

    light_preference_forget = cublasLtMatmulPreferenceDestroy, hipblasLtMatmulPreferenceDestroy (
        _preference: usize,
    ) |_, _| { Ok(()) }

    light_heuristic = cublasLtMatmulAlgoGetHeuristic, hipblasLtMatmulAlgoGetHeuristic (
        _handle: usize, description: *const Description, _a: *const Layout, _b: *const Layout, _c: *const Layout,
        _d: *const Layout, _preference: usize, _wanted: c_int, _found: *mut c_void, count: *mut c_int,
    ) |_, effect| {
        // SAFETY: the caller gives what the functions above have made.
        let Description { scales, modes, .. } = unsafe { &*description };
        // As on an H200: scales that are laid out have an address.
        if *modes != [0, 0] && scales.contains(&0) {
            return Err(NOT_SUPPORTED);
        }
        put(count, if effect == Some(Effect::Value(0)) { 0 } else { 1 });
        Ok(())
    }

    multiply = cublasLtMatmul, hipblasLtMatmul (
        _handle: usize, description: *const Description, _alpha: *const f32, a: u64, a_layout: *const Layout, b: u64,
        b_layout: *const Layout, beta: *const f32, _c: u64, _c_layout: *const Layout, d: u64, d_layout: *const Layout,
        _algorithm: *const c_void, workspace: u64, workspace_bytes: usize, _stream: usize,
    ) |node, effect| {
        node.memory.check(workspace, workspace_bytes as u64).map_err(|_| INVALID)?;
        // SAFETY: the caller gives what the functions above have made, and a pointer to a number.
        let (description, kept) = unsafe { (&*description, beta.read()) };
        // SAFETY: as for the line above.
        let [a_layout, b_layout, d_layout] = [a_layout, b_layout, d_layout].map(|layout| unsafe { &*layout });
        let product = product(description, (a, a_layout), (b, b_layout), (d, d_layout), kept.into())?;
        queue(node, product, effect)
    }
}

#[unsafe(no_mangle)]
extern "C" fn hipblasLtGetVersion(_handle: usize, version: *mut c_int) -> c_int {
    perform("library_version", |_, _| {
        put(version, 100_000);
        Ok(())
    })
}

fn product(
    description: &Description,
    (a, a_layout): (u64, &Layout),
    (b, b_layout): (u64, &Layout),
    (d, d_layout): (u64, &Layout),
    kept: f64,
) -> Result<Product, i32> {
    let [left, right] = description.transposed;
    let (m, n) = (d_layout.rows, d_layout.columns);
    let depth = if left { a_layout.rows } else { a_layout.columns };
    let turned = |turn: bool, rows: u64, columns: u64| if turn { [columns, rows] } else { [rows, columns] };
    let given = [[a_layout.rows, a_layout.columns], [b_layout.rows, b_layout.columns]];
    if given != [turned(left, m, depth), turned(right, depth, n)] {
        return Err(INVALID);
    }
    // The bias runs along the library's rows, which are the caller's columns.
    let bias =
        Matrix { address: description.bias, number: number(d_layout.kind)?, row: 1, column: 0, batch: 0 };
    Ok(Product {
        size: [d_layout.batches, m, n, depth],
        a: matrix(a, a_layout.kind, left, a_layout.leading, a_layout.distance)?,
        b: matrix(b, b_layout.kind, right, b_layout.leading, b_layout.distance)?,
        bias: (description.epilogue == ADD_BIAS).then_some(bias),
        out: matrix(d, d_layout.kind, false, d_layout.leading, d_layout.distance)?,
        kept,
        served: served(description, [m, n, depth])?,
        wrong: false,
    })
}

/// The scales of both operands. `None` if there are none.
fn served(description: &Description, [m, n, depth]: [u64; 3]) -> Result<Option<Served>, i32> {
    if description.scales == [0, 0] {
        return Ok(None);
    }
    let blocks = |size: u64| size.div_ceil(128);
    let mut scales = Vec::new();
    for ((address, mode), rows) in description.scales.into_iter().zip(description.modes).zip([m, n]) {
        let [block, row, between, count] = match mode {
            0 => [1, 0, 0, 1],
            3 => [1, 1, 0, rows],
            4 => [1, 1, rows, rows * blocks(depth)],
            5 => [128, blocks(depth), 1, blocks(rows) * blocks(depth)],
            _ => return Err(INVALID),
        };
        scales.push(Scales { address, block, row, depth: between, group: 0, count });
    }
    let rows = (0..m).map(|row| Row { out: row, a: row, group: 0 }).collect();
    Ok(Some(Served { rows, a_rows: m, groups: 1, scales: scales.try_into().ok(), weights: None }))
}

/// Reads a number of one, four or eight bytes.
fn read(value: *const c_void, bytes: usize) -> Result<u64, i32> {
    // SAFETY: the caller gives a value that has as many bytes as it states.
    unsafe {
        match bytes {
            1 => Ok(u64::from(value.cast::<u8>().read())),
            4 => Ok(u64::from(value.cast::<u32>().read())),
            8 => Ok(value.cast::<u64>().read()),
            _ => Err(INVALID),
        }
    }
}
