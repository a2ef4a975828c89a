//! Why a kernel cannot be launched, or must not be.
//!
//! A single pick that does not fit makes a whole compile fail. So a kernel is refused in case of doubt. The rules of
//! shared memory were derived from kernels that Triton 3.6 compiled.

use diode_core::{Alignment, Config, DType, Problem, Tile};
use pyo3::prelude::*;

use crate::config::PyConfig;
use crate::problem::PyProblem;

/// The reason in one sentence why a config cannot run on a problem with this many bytes of shared memory per block.
/// `None` if it can.
#[pyfunction]
#[pyo3(signature = (problem, config, shared_memory, *, tf32=false))]
pub(crate) fn obstacle(
    problem: &PyProblem,
    config: &PyConfig,
    shared_memory: u32,
    tf32: bool,
) -> Option<String> {
    why_not(&problem.0, &config.0, shared_memory, tf32)
}

pub(crate) fn why_not(problem: &Problem, config: &Config, shared_memory: u32, tf32: bool) -> Option<String> {
    /// Triton's `tl.dot` multiplies at least so much of K at once.
    const LEAST_BLOCK_K: u32 = 16;
    let tile = config.tile()?;
    if tile.block_k < LEAST_BLOCK_K {
        return Some(format!(
            "{}: its block_k is {}, Triton multiplies {LEAST_BLOCK_K} or more of K at once",
            config.label(),
            tile.block_k
        ));
    }
    let needed = shared_memory_of(problem, config, tile, tf32);
    if needed > u64::from(shared_memory) {
        return Some(format!(
            "{}: it needs {needed} bytes of shared memory per block, there are {shared_memory}",
            config.label()
        ));
    }
    if faults(problem, tile) {
        return Some(format!(
            "{}: diode's kernels of its form once faulted on unaligned rows, and it was never the best since",
            config.label()
        ));
    }
    let nonkdim = tile.rocm.map_or(0, |rocm| rocm.matrix_instr_nonkdim);
    if nonkdim != 0 && !(tile.block_m.is_multiple_of(nonkdim) && tile.block_n.is_multiple_of(nonkdim)) {
        return Some(format!(
            "{}: its blocks are no multiples of matrix_instr_nonkdim = {nonkdim}",
            config.label()
        ));
    }
    None
}

/// How many bytes of shared memory a kernel needs: for the stages of its main loop, or for the tile that the
/// epilogue transposes, whichever is more.
fn shared_memory_of(problem: &Problem, config: &Config, tile: &Tile, tf32: bool) -> u64 {
    /// The barriers of the tensor memory accelerator take this many bytes per stage.
    const BARRIER: u64 = 8;
    let operand = problem.a_dtype.size().max(problem.b_dtype.size());
    let stage = u64::from(tile.block_m + tile.block_n) * u64::from(tile.block_k) * operand;
    let stages = u64::from(tile.num_stages);
    let tensor_cores = problem.a_dtype != DType::Float32 || tf32;
    let warp_groups = tile.rocm.is_none() && tensor_cores && tile.block_m >= 64 && tile.num_warps >= 4;
    let main_loop = match config {
        Config::PersistentTma(_) => stages * (stage + BARRIER),
        _ if warp_groups => stages * stage,
        // The last stage stays in registers.
        _ => (stages - 1).max(1) * stage,
    };
    // ROCm's compiler stores accumulators without transposing them.
    let epilogue = if tile.rocm.is_some() {
        0
    } else {
        u64::from(tile.block_m) * u64::from(tile.block_n) * problem.out_dtype.size()
    };
    main_loop.max(epilogue)
}

/// Whether a tile might read illegal addresses. Tiles with many registers did so in an earlier form of the
/// collector's unaligned kernels. The current kernels do not. Refusing such tiles costs nothing: none of 96
/// measured problems had such a tile as its best config.
fn faults(problem: &Problem, tile: &Tile) -> bool {
    let rows = problem.alignment();
    let unaligned = [rows.a, rows.b, rows.out].iter().any(|&rows| rows != Alignment::Bytes16);
    unaligned && tile.block_m >= 128 && tile.block_k >= 128 && tile.num_warps <= 2
}
