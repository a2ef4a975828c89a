//! A table in the form of Inductor's own `lookup_table` setting. With it, Inductor compiles the
//! listed problems without any benchmark, and this project need not be installed.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::ops::Deref;

use indexmap::IndexMap;
use serde::{Serialize, Serializer};

use crate::error::Invalid;
use crate::hardware::{Hardware, Vendor};
use crate::ids::HardwareSlug;
use crate::named_enum::named_enum;
use crate::space::config_for;
use crate::table::Table;
use crate::{AccType, Bias, Config, DType, Layout, Op, Problem, RocmExtras, Template, Tile};

named_enum! {
    /// A torch release whose template sources have known digests.
    TorchVersion("torch version") {
        V2_11 = "2.11.0",
    }
}

/// What Inductor's form says and a table does not.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InductorOptions {
    /// Leaves the device's name out of the keys, so that they apply to every device.
    pub device_agnostic: bool,
    /// Makes the entries valid for this torch release only.
    pub torch: Option<TorchVersion>,
    /// The factors of `addmm` and `baddbmm`.
    pub scalars: Scalars,
}

/// From lookup key to configs, with the preferred config first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InductorTable(IndexMap<String, Vec<InductorEntry>>);

impl Deref for InductorTable {
    type Target = IndexMap<String, Vec<InductorEntry>>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl Serialize for InductorTable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(&self.0)
    }
}

impl Table {
    /// The table in Inductor's form. Keys and entries are those of torch 2.11.
    ///
    /// Problems share a key if they differ only in what the key does not say, such as the layout of
    /// the output. The first of these problems counts. Scaled and grouped problems are left out, since Inductor looks
    /// none up; a table of nothing else is refused. [`Self::beyond_inductor`] counts them.
    pub fn to_inductor(&self, options: &InductorOptions) -> Result<InductorTable, Invalid> {
        if self.hardware.vendor == Vendor::Cpu {
            return Err(Invalid::new(
                "hardware",
                &self.hardware.slug,
                "a GPU, as Inductor's lookup table is for",
            ));
        }
        let device = if options.device_agnostic { None } else { Some(device_name(&self.hardware)?) };
        let mut table = IndexMap::with_capacity(self.len());
        let has_plain = self.beyond_inductor() < self.len();
        for (number, (problem, configs)) in (1..).zip(self.iter()) {
            if has_plain && !problem.op.is_plain() {
                continue;
            }
            problem.op.check_plain().map_err(|invalid| invalid.within(format_args!("entry {number}")))?;
            let key = key(problem, device.as_ref(), &options.scalars);
            if table.contains_key(&key) {
                continue;
            }
            let entries = configs
                .iter()
                .map(|listed| InductorEntry::new(&listed.config, problem, &self.hardware, options.torch))
                .collect::<Result<_, _>>()?;
            table.insert(key, entries);
        }
        Ok(InductorTable(table))
    }

    /// How many problems [`Self::to_inductor`] leaves out.
    pub fn beyond_inductor(&self) -> usize {
        self.iter().filter(|(problem, _)| !problem.op.is_plain()).count()
    }
}

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
    fn new(
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
        Op::ScaledMm => "aten::_scaled_mm",
        Op::GroupedMm => "aten::_grouped_mm",
        Op::ScaledGroupedMm => "aten::_scaled_grouped_mm",
        Op::FusedMoe => "vllm::fused_moe",
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

/// A number as Python prints it. Python's `2.0` and `2` are equal, but their texts make different
/// keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PythonNumber(String);

impl std::str::FromStr for PythonNumber {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let plain = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'+' | b'e'));
        match text.parse::<f64>() {
            Ok(number) if plain && number.is_finite() => Ok(Self(text.to_owned())),
            _ => Err(Invalid::new(
                "number",
                format_args!("`{text}`"),
                "one as Python prints it: 1, 2.0 or 1e-05",
            )),
        }
    }
}

impl std::fmt::Display for PythonNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&self.0)
    }
}

/// The factors of the product and the bias in `addmm` and `baddbmm`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scalars {
    pub alpha: PythonNumber,
    pub beta: PythonNumber,
}

impl Default for Scalars {
    /// torch's defaults, which are whole numbers.
    fn default() -> Self {
        let one = || PythonNumber("1".to_owned());
        Self { alpha: one(), beta: one() }
    }
}

/// Inductor's name for a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceName(String);

/// Inductor's name for some hardware. On NVIDIA GPUs it is the driver's name. On AMD GPUs it is the
/// architecture, since Inductor does not see the marketing name.
pub fn device_name(hardware: &Hardware) -> Result<DeviceName, Invalid> {
    match hardware.vendor {
        Vendor::Nvidia => Ok(DeviceName(hardware.name.clone())),
        Vendor::Amd if is_mi300x(&hardware.slug) => Ok(DeviceName("gfx942:sramecc+:xnack-".to_owned())),
        Vendor::Amd | Vendor::Cpu => Err(Invalid::new(
            "hardware",
            &hardware.slug,
            "one whose name in Inductor is known; use device-agnostic keys",
        )),
    }
}

fn is_mi300x(slug: &HardwareSlug) -> bool {
    slug.as_str() == "amd-mi300x"
}

/// The key of a problem, for one device or for all devices.
pub fn key(problem: &Problem, device: Option<&DeviceName>, scalars: &Scalars) -> String {
    let mut key = device.map_or_else(String::new, |DeviceName(name)| format!("{name}+"));
    let nodes: Vec<String> = nodes(problem).iter().map(Node::python).collect();
    // Writing to a String cannot fail.
    let _ = write!(key, "({})+", nodes.join(", "));
    if problem.op.has_bias() {
        let _ = write!(key, "alpha={}&beta={}+", scalars.alpha, scalars.beta);
    }
    key + problem.op.as_str()
}

/// A tensor that a kernel reads.
struct Node {
    dtype: DType,
    sizes: Vec<u64>,
    strides: Vec<u64>,
}

impl Node {
    /// A dense matrix, or a batch of them.
    fn dense(dtype: DType, batch: Option<u64>, rows: u64, columns: u64, layout: Layout) -> Self {
        let (row, column) = match layout {
            Layout::Row => (columns, 1),
            Layout::Column => (1, rows),
        };
        Self {
            dtype,
            sizes: batch.into_iter().chain([rows, columns]).collect(),
            strides: batch.map(|_| rows * columns).into_iter().chain([row, column]).collect(),
        }
    }

    /// The bias, expanded to the shape of the output.
    fn bias(problem: &Problem, batch: Option<u64>) -> Option<Self> {
        let matrix = Self::dense(problem.out_dtype, batch, problem.m, problem.n, Layout::Row);
        match problem.bias {
            Bias::None => None,
            Bias::Matrix => Some(matrix),
            Bias::Vector => {
                let strides = batch.map(|_| 0).into_iter().chain([0, 1]).collect();
                Some(Self { strides, ..matrix })
            }
        }
    }

    fn python(&self) -> String {
        // Rust prints lists of numbers as Python does.
        format!("(torch.{}, {:?}, {:?})", self.dtype, self.sizes, self.strides)
    }
}

/// What a kernel reads, in Inductor's order: the bias, A, B.
fn nodes(problem: &Problem) -> Vec<Node> {
    let batch = problem.op.is_batched().then_some(problem.b);
    let a = Node::dense(problem.a_dtype, batch, problem.m, problem.k, problem.a_layout);
    let b = Node::dense(problem.b_dtype, batch, problem.k, problem.n, problem.b_layout);
    Node::bias(problem, batch).into_iter().chain([a, b]).collect()
}
