//! How a problem is computed.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

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
    /// Whether the transposes are multiplied, so that few rows become the side of the instruction that may be
    /// short on Hopper.
    pub swap_ab: bool,
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
            swap_ab: false,
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
    /// `aten`: the library, which is cuBLAS or, on AMD GPUs, hipBLASLt.
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
        let swap = if t.swap_ab { ";swap=true" } else { "" };
        format!(
            "{template};bm={};bn={};bk={};group={};stages={};warps={};even_k={};tf32={};fast={};acc={}{rocm}{swap}",
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
                let swap = if t.swap_ab { " swap" } else { "" };
                let Tile { block_m, block_n, block_k, num_stages, num_warps, .. } = t;
                format!("{block_m}×{block_n}×{block_k} s{num_stages} w{num_warps}{tma}{swap}")
            }
        }
    }
}

/// A config as one flat record: the form of files, JSON and tables. Fields that
/// a template does not have are null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ConfigFields {
    pub template: Template,
    pub block_m: Option<u32>,
    pub block_n: Option<u32>,
    pub block_k: Option<u32>,
    pub group_m: Option<u32>,
    pub num_stages: Option<u32>,
    pub num_warps: Option<u32>,
    pub even_k: Option<bool>,
    #[serde(default)]
    pub allow_tf32: Option<bool>,
    #[serde(default)]
    pub use_fast_accum: Option<bool>,
    #[serde(default)]
    pub acc_type: Option<AccType>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rocm: Option<RocmExtras>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub k_split: Option<u32>,
    /// Written only where it is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub swap_ab: Option<bool>,
}

impl From<Config> for ConfigFields {
    fn from(config: Config) -> Self {
        let tile = config.tile();
        Self {
            template: config.template(),
            block_m: tile.map(|t| t.block_m),
            block_n: tile.map(|t| t.block_n),
            block_k: tile.map(|t| t.block_k),
            group_m: tile.map(|t| t.group_m),
            num_stages: tile.map(|t| t.num_stages),
            num_warps: tile.map(|t| t.num_warps),
            even_k: tile.map(|t| t.even_k),
            allow_tf32: match config {
                Config::RoundingLibrary => Some(true),
                _ => tile.map(|t| t.allow_tf32),
            },
            use_fast_accum: tile.map(|t| t.use_fast_accum),
            acc_type: tile.map(|t| t.acc_type),
            rocm: tile.and_then(|t| t.rocm),
            k_split: match config {
                Config::DecomposeK { k_split } => Some(k_split),
                _ => None,
            },
            swap_ab: tile.filter(|t| t.swap_ab).map(|_| true),
        }
    }
}

impl ConfigFields {
    /// Refuses fields that belong to another template. With this template they would have no effect.
    fn check_template(&self) -> Result<(), Invalid> {
        let flag = |flag: Option<bool>| flag.filter(|&set| set).map(|_| "true".to_owned());
        let number = |number: Option<u32>| number.map(|number| number.to_string());
        let template = self.template;
        let of_tiles = [
            (Field::BlockM, number(self.block_m)),
            (Field::BlockN, number(self.block_n)),
            (Field::BlockK, number(self.block_k)),
            (Field::GroupM, number(self.group_m)),
            (Field::NumStages, number(self.num_stages)),
            (Field::NumWarps, number(self.num_warps)),
            (Field::EvenK, flag(self.even_k)),
            (Field::AllowTf32, flag(self.allow_tf32).filter(|_| template != Template::Aten)),
            (Field::UseFastAccum, flag(self.use_fast_accum)),
            (Field::Rocm, self.rocm.map(|_| "parameters".to_owned())),
            (Field::SwapAb, flag(self.swap_ab)),
        ];
        let foreign = of_tiles
            .into_iter()
            .filter(|_| !template.has_tile())
            .chain([(Field::KSplit, number(self.k_split).filter(|_| template != Template::DecomposeK))])
            .find_map(|(field, value)| Some((field, value?)));
        match foreign {
            Some((field, value)) => {
                Err(Invalid::new(field, value, format!("none, since the template is {template}")))
            }
            None => Ok(()),
        }
    }
}

impl TryFrom<ConfigFields> for Config {
    type Error = Invalid;

    fn try_from(fields: ConfigFields) -> Result<Self, Invalid> {
        fields.check_template()?;
        let need = |field: Field, value: Option<u32>| {
            value.ok_or_else(|| {
                Invalid::new(field, "null", format!("a number, since the template is {}", fields.template))
            })
        };
        let tile = || -> Result<Tile, Invalid> {
            Ok(Tile {
                block_m: need(Field::BlockM, fields.block_m)?,
                block_n: need(Field::BlockN, fields.block_n)?,
                block_k: need(Field::BlockK, fields.block_k)?,
                group_m: need(Field::GroupM, fields.group_m)?,
                num_stages: need(Field::NumStages, fields.num_stages)?,
                num_warps: need(Field::NumWarps, fields.num_warps)?,
                even_k: fields.even_k.unwrap_or(false),
                allow_tf32: fields.allow_tf32.unwrap_or(false),
                use_fast_accum: fields.use_fast_accum.unwrap_or(false),
                acc_type: fields.acc_type.unwrap_or(AccType::Float32),
                rocm: fields.rocm,
                swap_ab: fields.swap_ab.unwrap_or(false),
            })
        };
        let config = match fields.template {
            Template::TritonMm => Self::Mm(tile()?),
            Template::TritonBmm => Self::Bmm(tile()?),
            Template::TritonMmPersistentTma => Self::PersistentTma(tile()?),
            Template::DecomposeK => Self::DecomposeK { k_split: need(Field::KSplit, fields.k_split)? },
            Template::Aten => Self::library(fields.allow_tf32.unwrap_or(false)),
        };
        config.validate()?;
        Ok(config)
    }
}

impl Serialize for Config {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ConfigFields::from(*self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Config {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::try_from(ConfigFields::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod config_fields_tests {
    use super::*;

    #[test]
    fn configs_round_trip_through_their_flat_form() {
        for config in [
            Config::Mm(Tile::new(128, 64, 32, 3, 4)),
            Config::PersistentTma(Tile::new(128, 128, 64, 3, 8).for_k(128)),
            Config::Mm(Tile { swap_ab: true, ..Tile::new(16, 128, 128, 4, 4) }),
            Config::DecomposeK { k_split: 4 },
            Config::Library,
            Config::RoundingLibrary,
        ] {
            let text = serde_json::to_string(&config).unwrap();
            assert_eq!(serde_json::from_str::<Config>(&text).unwrap(), config);
            let swaps = config.tile().is_some_and(|tile| tile.swap_ab);
            assert_eq!(
                (text.contains("swap_ab"), config.canonical().ends_with(";swap=true")),
                (swaps, swaps)
            );
            assert_eq!(config.label().ends_with(" swap"), swaps);
        }
    }

    #[test]
    fn tiles_are_checked() {
        let bad = ConfigFields::from(Config::Mm(Tile::new(48, 64, 32, 3, 4)));
        let error = Config::try_from(bad).unwrap_err();
        assert_eq!(error.to_string(), "block_m: got 48, expected a power of two up to 1024");
        let missing = ConfigFields { block_k: None, ..Config::Mm(Tile::new(64, 64, 32, 3, 4)).into() };
        assert!(Config::try_from(missing).unwrap_err().to_string().contains("block_k: got null"));
    }

    #[test]
    fn what_a_template_has_not_got_is_refused() {
        let refused = |fields: ConfigFields| Config::try_from(fields).unwrap_err().to_string();
        let library = ConfigFields::from(Config::Library);
        let error = refused(ConfigFields { block_m: Some(64), ..library.clone() });
        assert_eq!(error, "block_m: got 64, expected none, since the template is aten");
        assert!(
            refused(ConfigFields { even_k: Some(true), ..library.clone() }).starts_with("even_k: got true")
        );
        assert!(
            refused(ConfigFields { swap_ab: Some(true), ..library.clone() }).starts_with("swap_ab: got true")
        );
        assert!(refused(ConfigFields { k_split: Some(4), ..library.clone() }).starts_with("k_split: got 4"));
        let split = ConfigFields::from(Config::DecomposeK { k_split: 4 });
        assert!(refused(ConfigFields { num_warps: Some(4), ..split }).contains("template is decompose_k"));
        let tiled = ConfigFields::from(Config::Mm(Tile::new(64, 64, 32, 3, 4)));
        assert!(refused(ConfigFields { k_split: Some(4), ..tiled }).contains("template is triton::mm"));
        // Other programs may write these fields for the library kernel, too. They change nothing there.
        let of_a_row = ConfigFields { even_k: Some(false), acc_type: Some(AccType::Float32), ..library };
        assert_eq!(Config::try_from(of_a_row), Ok(Config::Library));
    }
}
