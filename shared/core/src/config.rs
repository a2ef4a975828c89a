//! How a problem is computed.

use serde::{Deserialize, Serialize};

use crate::error::{Field, Invalid};
use crate::named_enum::named_enum;
use crate::{DType, Problem};

named_enum! {
    /// The code template that a kernel comes from, under Inductor's name.
    Template("template") {
        /// One output tile per block.
        TritonMm = "triton::mm",
        /// The same for a batch.
        TritonBmm = "triton::bmm",
        /// Persistent blocks fed by the tensor memory accelerator.
        TritonMmPersistentTma = "triton::mm_persistent_tma",
        /// Splits K into a batched multiplication and a sum.
        DecomposeK = "decompose_k",
        /// The vendor's library (cuBLAS, rocBLAS).
        Aten = "aten",
    }
}

impl Template {
    /// Whether kernels of this template have a tile.
    pub const fn has_tile(self) -> bool {
        match self {
            Self::TritonMm | Self::TritonBmm | Self::TritonMmPersistentTma => true,
            Self::DecomposeK | Self::Aten => false,
        }
    }
}

named_enum! {
    /// The type in which products are summed, under Triton's names.
    AccType("ACC_TYPE") {
        Float32 = "tl.float32",
        Float16 = "tl.float16",
        Int32 = "tl.int32",
    }
}

/// What ROCm's compiler takes in addition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RocmExtras {
    pub matrix_instr_nonkdim: u32,
    pub waves_per_eu: u32,
    pub kpack: u32,
}

/// The parameters of a tiled kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tile {
    pub block_m: u32,
    pub block_n: u32,
    pub block_k: u32,
    pub group_m: u32,
    pub num_stages: u32,
    pub num_warps: u32,
    pub even_k: bool,
    pub allow_tf32: bool,
    pub use_fast_accum: bool,
    pub acc_type: AccType,
    pub rocm: Option<RocmExtras>,
}

impl Tile {
    /// A tile with Triton's usual settings for the rest.
    pub const fn new(block_m: u32, block_n: u32, block_k: u32, num_stages: u32, num_warps: u32) -> Self {
        Self {
            block_m,
            block_n,
            block_k,
            group_m: 8,
            num_stages,
            num_warps,
            even_k: false,
            allow_tf32: false,
            use_fast_accum: false,
            acc_type: AccType::Float32,
            rocm: None,
        }
    }

    /// The same tile with `EVEN_K` set as the problem's K requires.
    pub const fn for_k(mut self, k: u64) -> Self {
        self.even_k = k.is_multiple_of(self.block_k as u64);
        self
    }

    fn validate(&self) -> Result<(), Invalid> {
        /// No kernel uses larger blocks. Triton also refuses blocks that are not powers of two.
        const MAX_BLOCK: u32 = 1024;
        for (field, value) in
            [(Field::BlockM, self.block_m), (Field::BlockN, self.block_n), (Field::BlockK, self.block_k)]
        {
            if !value.is_power_of_two() || value > MAX_BLOCK {
                return Err(Invalid::new(field, value, format!("a power of two up to {MAX_BLOCK}")));
            }
        }
        for (field, value, max) in
            [(Field::GroupM, self.group_m, 1024), (Field::NumStages, self.num_stages, 16)]
        {
            if value == 0 || value > max {
                return Err(Invalid::new(field, value, format!("a number from 1 to {max}")));
            }
        }
        if !self.num_warps.is_power_of_two() || self.num_warps > 32 {
            return Err(Invalid::new(Field::NumWarps, self.num_warps, "a power of two up to 32"));
        }
        Ok(())
    }
}

/// One way to compute a problem.
///
/// torch-diode's `name`, `grid` and `version` are not part of it: they do not
/// change what runs, and two configs that run the same kernel are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Config {
    /// `triton::mm`
    Mm(Tile),
    /// `triton::bmm`
    Bmm(Tile),
    /// `triton::mm_persistent_tma`
    PersistentTma(Tile),
    /// `decompose_k`
    DecomposeK { k_split: u32 },
    /// `aten`
    Library,
    /// `aten` with `allow_tf32`: the library, if a program allows it to round float32 inputs to TF32.
    RoundingLibrary,
}

impl Config {
    pub const fn template(&self) -> Template {
        match self {
            Self::Mm(_) => Template::TritonMm,
            Self::Bmm(_) => Template::TritonBmm,
            Self::PersistentTma(_) => Template::TritonMmPersistentTma,
            Self::DecomposeK { .. } => Template::DecomposeK,
            Self::Library | Self::RoundingLibrary => Template::Aten,
        }
    }

    /// Whether this is the vendor's own kernel. All other configs count as Triton's, also in the
    /// dashboard.
    pub const fn is_library(&self) -> bool {
        matches!(self, Self::Library | Self::RoundingLibrary)
    }

    /// The library that computes what Triton configs do: with rounding to TF32, or without.
    pub const fn library(rounds: bool) -> Self {
        if rounds { Self::RoundingLibrary } else { Self::Library }
    }

    /// Whether float32 inputs are rounded to TF32.
    pub fn rounds_to_tf32(&self) -> bool {
        *self == Self::RoundingLibrary || self.tile().is_some_and(|tile| tile.allow_tf32)
    }

    /// The same config with or without rounding to TF32. Split-K kernels cannot be told to round.
    #[must_use]
    pub const fn rounding(self, allow_tf32: bool) -> Self {
        match self {
            Self::Mm(tile) => Self::Mm(Tile { allow_tf32, ..tile }),
            Self::Bmm(tile) => Self::Bmm(Tile { allow_tf32, ..tile }),
            Self::PersistentTma(tile) => Self::PersistentTma(Tile { allow_tf32, ..tile }),
            Self::DecomposeK { .. } => self,
            Self::Library | Self::RoundingLibrary => Self::library(allow_tf32),
        }
    }

    /// Whether the config rounds the inputs of this problem to TF32. With and without rounding are two
    /// different computations, whose times are not compared.
    pub fn rounds(&self, problem: &Problem) -> bool {
        problem.a_dtype == DType::Float32 && self.rounds_to_tf32()
    }

    /// The tile, for the templates that have one.
    pub const fn tile(&self) -> Option<&Tile> {
        match self {
            Self::Mm(tile) | Self::Bmm(tile) | Self::PersistentTma(tile) => Some(tile),
            Self::DecomposeK { .. } | Self::Library | Self::RoundingLibrary => None,
        }
    }

    /// The same config with `EVEN_K` set as the problem's K requires.
    #[must_use]
    pub const fn for_k(self, k: u64) -> Self {
        match self {
            Self::Mm(tile) => Self::Mm(tile.for_k(k)),
            Self::Bmm(tile) => Self::Bmm(tile.for_k(k)),
            Self::PersistentTma(tile) => Self::PersistentTma(tile.for_k(k)),
            Self::DecomposeK { .. } | Self::Library | Self::RoundingLibrary => self,
        }
    }

    /// Checks a config that came from outside. Configs that code builds from the spaces are always
    /// valid.
    pub fn validate(&self) -> Result<(), Invalid> {
        match self {
            Self::DecomposeK { k_split } if *k_split < 2 => {
                Err(Invalid::new(Field::KSplit, k_split, "at least 2"))
            }
            _ => self.tile().map_or(Ok(()), Tile::validate),
        }
    }

    /// The text that defines the config's identity. Two configs are the same exactly if their canonical
    /// texts are the same.
    pub fn canonical(&self) -> String {
        let template = self.template();
        let Some(t) = self.tile() else {
            return match self {
                Self::DecomposeK { k_split } => format!("{template};k_split={k_split}"),
                Self::RoundingLibrary => format!("{template};tf32=true"),
                _ => template.to_string(),
            };
        };
        let rocm = t.rocm.map_or_else(String::new, |r| {
            format!(";nonkdim={};waves={};kpack={}", r.matrix_instr_nonkdim, r.waves_per_eu, r.kpack)
        });
        format!(
            "{template};bm={};bn={};bk={};group={};stages={};warps={};even_k={};tf32={};fast={};acc={}{rocm}",
            t.block_m,
            t.block_n,
            t.block_k,
            t.group_m,
            t.num_stages,
            t.num_warps,
            t.even_k,
            t.allow_tf32,
            t.use_fast_accum,
            t.acc_type
        )
    }

    /// How a config is written for people: `128×256×64 s3 w8`.
    pub fn label(&self) -> String {
        match self {
            Self::Library | Self::RoundingLibrary => "library".to_owned(),
            Self::DecomposeK { k_split } => format!("split-K {k_split}"),
            Self::Mm(t) | Self::Bmm(t) | Self::PersistentTma(t) => {
                let tma = if matches!(self, Self::PersistentTma(_)) { " tma" } else { "" };
                format!("{}×{}×{} s{} w{}{tma}", t.block_m, t.block_n, t.block_k, t.num_stages, t.num_warps)
            }
        }
    }
}
