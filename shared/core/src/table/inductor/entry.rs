//! The entries of Inductor's lookup table: a template with all of its parameters.

use serde::Serialize;

use super::TorchVersion;
use crate::error::Invalid;
use crate::hardware::{Hardware, Vendor};
use crate::space::config_for;
use crate::{AccType, Config, Layout, Op, Problem, RocmExtras, Template, Tile};

/// One entry. It has exactly the template's parameters: Inductor adds no defaults, and it makes an
/// unknown parameter a constant of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InductorEntry {
    template_id: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    template_hash: Option<&'static str>,
    #[serde(flatten)]
    parameters: Parameters,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
enum Parameters {
    Cuda(Cuda),
    Rocm(Rocm),
    PersistentTma(PersistentTma),
    DecomposeK { k_split: u32 },
    Library {},
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Gemm {
    #[serde(rename = "EVEN_K")]
    even_k: bool,
    #[serde(rename = "USE_FAST_ACCUM")]
    use_fast_accum: bool,
    #[serde(rename = "ACC_TYPE")]
    acc_type: AccType,
    num_stages: u32,
    num_warps: u32,
    #[serde(rename = "BLOCK_M")]
    block_m: u32,
    #[serde(rename = "BLOCK_N")]
    block_n: u32,
    #[serde(rename = "BLOCK_K")]
    block_k: u32,
    #[serde(rename = "GROUP_M")]
    group_m: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Cuda {
    #[serde(flatten)]
    gemm: Gemm,
    /// Always `null`. Hints are only for sizes that are not known.
    hint_override: (),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Rocm {
    #[serde(flatten)]
    gemm: Gemm,
    #[serde(flatten)]
    extras: RocmExtras,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct PersistentTma {
    #[serde(flatten)]
    cuda: Cuda,
    #[serde(rename = "A_ROW_MAJOR")]
    a_row_major: bool,
    #[serde(rename = "B_ROW_MAJOR")]
    b_row_major: bool,
    #[serde(rename = "NUM_SMS")]
    num_sms: u32,
    #[serde(rename = "TMA_SIZE")]
    tma_size: u32,
    #[serde(rename = "TMA_EXPERIMENTAL_API")]
    tma_experimental_api: bool,
    tma_store: bool,
    transpose_discontiguous_tensor_descriptors_override: bool,
}

impl InductorEntry {
    pub(super) fn new(
        config: &Config,
        problem: &Problem,
        hardware: &Hardware,
        torch: Option<TorchVersion>,
    ) -> Result<Self, Invalid> {
        // A list may name the plain kernel for a batched problem. For batches, Inductor has another
        // kernel, which is taken instead.
        let config = match config {
            Config::Mm(tile) | Config::Bmm(tile) => config_for(problem.op, *tile),
            other => *other,
        };
        let parameters = match config {
            Config::Mm(tile) | Config::Bmm(tile) => match hardware.vendor {
                Vendor::Amd => Parameters::Rocm(Rocm::new(&tile, problem)),
                Vendor::Nvidia | Vendor::Cpu => Parameters::Cuda(Cuda::new(&tile, problem)),
            },
            Config::PersistentTma(tile) => {
                Parameters::PersistentTma(PersistentTma::new(&tile, problem, hardware)?)
            }
            Config::DecomposeK { k_split } => Parameters::DecomposeK { k_split },
            Config::Library | Config::RoundingLibrary => Parameters::Library {},
        };
        let template = config.template();
        let template_id = match config {
            Config::Library | Config::RoundingLibrary => library_id(problem.op),
            _ => template.as_str(),
        };
        let template_hash = torch.and_then(|torch| source_digest(torch, template));
        Ok(Self { template_id, template_hash, parameters })
    }
}

impl Gemm {
    /// Sets `EVEN_K` as Inductor would, whatever was measured.
    fn new(tile: &Tile, problem: &Problem) -> Self {
        let tile = tile.for_k(problem.k);
        Self {
            even_k: tile.even_k,
            use_fast_accum: tile.use_fast_accum,
            acc_type: tile.acc_type,
            num_stages: tile.num_stages,
            num_warps: tile.num_warps,
            block_m: tile.block_m,
            block_n: tile.block_n,
            block_k: tile.block_k,
            group_m: tile.group_m,
        }
    }
}

impl Cuda {
    fn new(tile: &Tile, problem: &Problem) -> Self {
        Self { gemm: Gemm::new(tile, problem), hint_override: () }
    }
}

impl Rocm {
    fn new(tile: &Tile, problem: &Problem) -> Self {
        /// What Inductor assumes where a config does not say otherwise.
        const USUAL: RocmExtras = RocmExtras { matrix_instr_nonkdim: 0, waves_per_eu: 0, kpack: 2 };
        Self { gemm: Gemm::new(tile, problem), extras: tile.rocm.unwrap_or(USUAL) }
    }
}

impl PersistentTma {
    fn new(tile: &Tile, problem: &Problem, hardware: &Hardware) -> Result<Self, Invalid> {
        /// The size of a descriptor in bytes.
        const DESCRIPTOR: u32 = 128;
        let facts = hardware.facts.as_ref().ok_or_else(|| {
            Invalid::new(
                "hardware",
                format_args!("{} without facts", hardware.slug),
                "a known number of SMs, which persistent kernels are launched on",
            )
        })?;
        Ok(Self {
            cuda: Cuda::new(tile, problem),
            a_row_major: problem.a_layout == Layout::Row,
            b_row_major: problem.b_layout == Layout::Row,
            num_sms: facts.sms,
            tma_size: DESCRIPTOR,
            tma_experimental_api: false,
            tma_store: false,
            transpose_discontiguous_tensor_descriptors_override: true,
        })
    }
}

/// The library kernel of an op, under Inductor's name.
const fn library_id(op: Op) -> &'static str {
    match op {
        Op::Mm => "aten::mm",
        Op::Addmm => "aten::addmm",
        Op::Bmm => "aten::bmm",
        Op::Baddbmm => "aten::baddbmm",
    }
}

/// The SHA-256 of a template's source. `None` for templates without a source.
const fn source_digest(torch: TorchVersion, template: Template) -> Option<&'static str> {
    match (torch, template) {
        (TorchVersion::V2_11, Template::TritonMm) => {
            Some("d4b90a54b960e7b3fb3abb24be0d43fc9b3c4d64c53ecd44187508e096498238")
        }
        (TorchVersion::V2_11, Template::TritonBmm) => {
            Some("1635ad519a2790c283e0cd308d03f44e1673a8289810f371093fbdcba6ec4f6a")
        }
        (TorchVersion::V2_11, Template::TritonMmPersistentTma) => {
            Some("546c26ab76103966291aa0566f5d7dffe6f2ae60e3c1d3f3bf91392fe7764bb7")
        }
        (TorchVersion::V2_11, Template::DecomposeK | Template::Aten) => None,
    }
}
