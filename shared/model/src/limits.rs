//! Which configs a model may pick for a problem.
//!
//! A pick that cannot be launched fails a whole compilation, so a config is refused in case of doubt. The
//! need for shared memory was read off kernels that Triton 3.6 compiled. Which configs are timed is decided
//! by [`feasibility`](diode_core::space::feasibility).

use diode_core::hardware::{Hardware, Vendor};
use diode_core::{Alignment, Config, DType, Problem, Tile};

/// The limits for the kernels of one problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How many bytes of shared memory a block may use.
    shared_memory: u32,
    /// The bytes of an element of A or B.
    operand_bytes: u64,
    /// The bytes of an element of the product.
    out_bytes: u64,
    /// Whether tensor cores multiply.
    tensor_cores: bool,
    /// Whether some rows are no multiples of 16 bytes.
    unaligned: bool,
    forms: Forms,
}

/// Which forms of tiles the caller can run, besides the plain one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Forms {
    /// Tiles that multiply the transposes.
    pub swapped: bool,
    /// Tiles that load by the tensor memory accelerator.
    pub tma: bool,
}

impl Forms {
    pub const ALL: Self = Self { swapped: true, tma: true };

    fn include(self, config: &Config) -> bool {
        (self.swapped || !config.tile().is_some_and(|tile| tile.swap_ab))
            && (self.tma || !matches!(config, Config::PersistentTma(_)))
    }
}

impl Limits {
    /// The limits for a problem, with `shared_memory` bytes per block. With `tf32`, float32 inputs are
    /// rounded to TF32.
    pub fn new(problem: &Problem, shared_memory: u32, tf32: bool) -> Self {
        let rows = problem.alignment();
        Self {
            shared_memory,
            operand_bytes: problem.a_dtype.size().max(problem.b_dtype.size()),
            out_bytes: problem.out_dtype.size(),
            tensor_cores: problem.a_dtype != DType::Float32 || tf32,
            unaligned: [rows.a, rows.b, rows.out].iter().any(|&rows| rows != Alignment::Bytes16),
            forms: Forms::ALL,
        }
    }

    /// The same limits for a caller that can run these forms alone.
    #[must_use]
    pub fn for_forms(self, forms: Forms) -> Self {
        Self { forms, ..self }
    }

    /// The limits on a GPU with its own shared memory, or with `shared_memory`. `None` for CPUs.
    pub fn on_hardware(
        hardware: &Hardware,
        problem: &Problem,
        shared_memory: Option<u32>,
        tf32: bool,
    ) -> Option<Self> {
        let own = hardware.facts.as_ref().map(|facts| facts.smem_per_block);
        let shared_memory = shared_memory.or(own).unwrap_or(u32::MAX);
        (hardware.vendor != Vendor::Cpu).then(|| Self::new(problem, shared_memory, tf32))
    }

    /// Whether these limits leave less shared memory than others.
    pub(crate) fn are_narrower_than(&self, other: &Self) -> bool {
        self.shared_memory < other.shared_memory
    }

    /// Why a config may not be picked, in one sentence. `None` if it may.
    pub fn obstacle(&self, config: &Config) -> Option<String> {
        /// The smallest K of Triton's `tl.dot`.
        const LEAST_BLOCK_K: u32 = 16;
        let tile = config.tile()?;
        if !self.forms.include(config) {
            return Some(format!("{}: tiles of its form cannot run here", config.label()));
        }
        if tile.block_k < LEAST_BLOCK_K {
            return Some(format!(
                "{}: its block_k is {}, Triton multiplies {LEAST_BLOCK_K} or more of K at once",
                config.label(),
                tile.block_k
            ));
        }
        let needed = self.shared_memory_of(config, tile);
        if needed > u64::from(self.shared_memory) {
            return Some(format!(
                "{}: it needs {needed} bytes of shared memory per block, there are {}",
                config.label(),
                self.shared_memory
            ));
        }
        if self.faults(tile) {
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
    fn shared_memory_of(&self, config: &Config, tile: &Tile) -> u64 {
        /// The barriers of the tensor memory accelerator take this many bytes per stage.
        const BARRIER: u64 = 8;
        let stage = u64::from(tile.block_m + tile.block_n) * u64::from(tile.block_k) * self.operand_bytes;
        let stages = u64::from(tile.num_stages);
        let rows = if tile.swap_ab { tile.block_n } else { tile.block_m };
        let warp_groups = tile.rocm.is_none() && self.tensor_cores && rows >= 64 && tile.num_warps >= 4;
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
            u64::from(tile.block_m) * u64::from(tile.block_n) * self.out_bytes
        };
        main_loop.max(epilogue)
    }

    /// Whether a tile might read illegal addresses. Tiles with many registers did so in an earlier version of
    /// the collector's unaligned kernels, but not in the current one. Refusing them costs nothing: such a
    /// tile was the best config of none of 96 measured problems.
    fn faults(&self, tile: &Tile) -> bool {
        self.unaligned && tile.block_m >= 128 && tile.block_k >= 128 && tile.num_warps <= 2
    }
}
