//! What one compiled kernel serves: all problems that differ only in their sizes, or a single one of them.

use diode_core::kernel_variant::EXACT_SIZES;
use diode_core::{Alignment, Bias, Config, DType, KernelVariant, Layout, OperandAlignment, Problem, Tile};

/// Everything besides the tile that the compiler must know. It includes the sizes only if they are compiled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Variant {
    pub(crate) batched: bool,
    pub(crate) dtype: DType,
    pub(crate) a_layout: Layout,
    pub(crate) b_layout: Layout,
    pub(crate) bias: Bias,
    pub(crate) alignment: OperandAlignment,
    /// M, N and K, if they are compiled in.
    pub(crate) sizes: Option<[u64; 3]>,
}

impl Variant {
    /// The variant that computes a problem, or the reason why there is none.
    pub(crate) fn of(problem: &Problem) -> Result<Self, String> {
        KernelVariant::of(problem).map(Self::from)
    }

    /// The variant without compiled-in sizes.
    fn general(&self) -> KernelVariant {
        let Self { batched, dtype, a_layout, b_layout, bias, alignment, .. } = *self;
        KernelVariant { batched, dtype, a_layout, b_layout, bias, alignment }
    }

    /// The variant that computes a problem from a pack. In an `exact` pack, it has the problem's sizes.
    pub(crate) fn in_pack(problem: &Problem, exact: bool) -> Result<Self, String> {
        Ok(Self { sizes: exact.then_some([problem.m, problem.n, problem.k]), ..Self::of(problem)? })
    }

    /// Whether a kernel of this variant may assume that K is a multiple of its block.
    pub(crate) fn allows_even_k(&self) -> bool {
        let along_k = [
            (self.a_layout == Layout::Row, self.alignment.a),
            (self.b_layout == Layout::Column, self.alignment.b),
        ];
        along_k.iter().all(|&(along, alignment)| !along || alignment == Alignment::Bytes16)
    }

    /// Whether tiles that fit into the matrix have other kernels than tiles that do not.
    ///
    /// Inductor's `mm` promises contiguous columns (or rows, of a column-major A) if the tile fits. The promise
    /// changes something only if nothing divides the size that an operand runs along.
    pub(crate) fn fit_matters(&self) -> bool {
        self.sizes.is_none() && !self.batched && self.undivided().contains(&true)
    }

    /// Whether a tile fits into the matrices of a problem, where that matters. If it matters for two matrices, the
    /// tile must fit into both.
    pub(crate) fn fits(&self, tile: &Tile, problem: &Problem) -> bool {
        let [a, b] = self.undivided();
        self.fit_matters()
            && problem.k > 1
            && (!a || problem.m >= u64::from(tile.block_m))
            && (!b || problem.n >= u64::from(tile.block_n))
    }

    /// Whether rows of A and columns of B are promised to be contiguous. Inductor's `bmm` promises it for any size.
    pub(super) fn contiguous(&self, tile: &Tile, fits: bool) -> [bool; 2] {
        match self.sizes {
            Some([m, n, k]) => [(m, tile.block_m), (n, tile.block_n)]
                .map(|(size, block)| self.batched || k > 1 && size >= u64::from(block)),
            None => self.undivided().map(|undivided| undivided && (fits || self.batched)),
        }
    }

    /// Whether every address is computed anew in each step along K, as in Inductor's `mm`. Without compiled-in sizes,
    /// this comes nearest to Inductor if an operand runs along M or N and is aligned to less than 16 bytes.
    pub(super) fn computes_addresses_anew(&self) -> bool {
        let narrow = [
            self.a_layout == Layout::Column && self.alignment.a != Alignment::Bytes16,
            self.b_layout == Layout::Row && self.alignment.b != Alignment::Bytes16,
        ];
        self.sizes.is_none() && !self.batched && narrow.contains(&true)
    }

    /// Two answers: whether A runs along M and nothing divides M, and whether B runs along N and nothing divides N.
    fn undivided(&self) -> [bool; 2] {
        [
            self.a_layout == Layout::Column && self.elements(self.alignment.a) == 1,
            self.b_layout == Layout::Row && self.elements(self.alignment.b) == 1,
        ]
    }

    /// How many elements an alignment spans.
    pub(super) fn elements(&self, alignment: Alignment) -> u64 {
        match alignment {
            Alignment::Bytes16 => 16 / self.dtype.size(),
            Alignment::Bytes4 => 4 / self.dtype.size(),
            Alignment::None => 1,
        }
    }

    /// The name of the kernel for a tile. Packs store kernels under this name, and launches find them by it.
    ///
    /// A tile's `ALLOW_TF32` means nothing for 16-bit types, so the names of their kernels leave it out.
    pub(crate) fn key(&self, tile: &Tile, fits: bool) -> String {
        let (general, precision) = (self.general(), self.precision(tile));
        let rocm = tile.rocm.map_or_else(String::new, |rocm| {
            format!(";nonkdim={};waves={}", rocm.matrix_instr_nonkdim, rocm.waves_per_eu)
        });
        let addresses = if self.computes_addresses_anew() { ";anew" } else { "" };
        let fit = if self.fit_matters() { format!(";fits={fits}") } else { String::new() };
        let sizes = self.sizes.map_or_else(String::new, |[m, n, k]| format!("{EXACT_SIZES}{m}x{n}x{k}"));
        format!(
            "{general};{precision};{}x{}x{};group={};stages={};warps={};even_k={}{rocm}{addresses}{fit}{sizes}",
            tile.block_m,
            tile.block_n,
            tile.block_k,
            tile.group_m,
            tile.num_stages,
            tile.num_warps,
            tile.even_k,
        )
    }

    pub(super) fn kernel(&self) -> &'static str {
        if self.batched { "bmm" } else { "mm" }
    }

    pub(super) fn precision(&self, tile: &Tile) -> &'static str {
        if self.dtype == DType::Float32 && tile.allow_tf32 { "tf32" } else { "ieee" }
    }
}

impl From<KernelVariant> for Variant {
    fn from(variant: KernelVariant) -> Self {
        let KernelVariant { batched, dtype, a_layout, b_layout, bias, alignment } = variant;
        Self { batched, dtype, a_layout, b_layout, bias, alignment, sizes: None }
    }
}

/// The tile of a config, if kernels exist for its template.
pub(crate) fn tile_of(config: &Config) -> Option<&Tile> {
    match config {
        Config::Mm(tile) | Config::Bmm(tile) => Some(tile),
        Config::PersistentTma(_) | Config::DecomposeK { .. } | Config::Library | Config::RoundingLibrary => {
            None
        }
    }
}

/// The part of a kernel's name that says which problems it computes. `None` for kernels that do not multiply, such as
/// those that fill operands.
pub(crate) fn problems_of(key: &str) -> Option<String> {
    let (variant, tile) = key.match_indices(';').nth(5).map(|(at, _)| key.split_at(at))?;
    let sizes =
        tile.split_once(EXACT_SIZES).map_or(String::new(), |(_, sizes)| format!("{EXACT_SIZES}{sizes}"));
    (variant.starts_with("mm;") || variant.starts_with("bmm;")).then(|| format!("{variant}{sizes}"))
}

/// Triton's name of a type. `None` if there are no kernels for it.
pub(crate) fn triton_type(dtype: DType) -> Option<&'static str> {
    match dtype {
        DType::Float16 => Some("fp16"),
        DType::BFloat16 => Some("bf16"),
        DType::Float32 => Some("fp32"),
        _ => None,
    }
}
