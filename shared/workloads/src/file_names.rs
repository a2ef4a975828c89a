//! Names of files of tuned configs, and where vLLM and SGLang look for them.

use std::fmt;

use diode_core::baselines::Baseline;
use diode_core::hardware::{Hardware, find};
use diode_core::{DType, Invalid, Op, Problem, Scaling, Stage, named_enum};

named_enum! {
    /// A server that reads tuned configs.
    Consumer("server") {
        Vllm = "vllm",
        Sglang = "sglang",
    }
}

impl Consumer {
    /// The name as the project writes it.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Vllm => "vLLM",
            Self::Sglang => "SGLang",
        }
    }

    /// The environment variable that names a folder of tuned configs of experts.
    pub const fn variable(self) -> &'static str {
        match self {
            Self::Vllm => "VLLM_TUNED_CONFIG_FOLDER",
            Self::Sglang => "SGLANG_MOE_CONFIG_DIR",
        }
    }

    /// The folder below the variable's folder in which files of experts lie, ending in a slash if there is one.
    /// SGLang has a folder for each version of Triton.
    pub fn folder(self, triton: &str) -> String {
        match self {
            Self::Vllm => String::new(),
            Self::Sglang => format!("configs/{}/", triton_folder(triton)),
        }
    }

    /// What it runs without a file.
    pub const fn default_config(self) -> Baseline {
        match self {
            Self::Vllm => Baseline::VllmDefault,
            Self::Sglang => Baseline::SglangDefault,
        }
    }

    /// The version of Triton that the release installs whose rules this module has.
    pub const fn triton(self) -> &'static str {
        "3.8.0"
    }

    /// The folder of the installed package in which dense files lie. No variable names another.
    pub const fn dense_folder(self) -> &'static str {
        match self {
            Self::Vllm => "vllm/model_executor/layers/quantization/utils/configs",
            Self::Sglang => "sglang/kernels/ops/gemm/configs",
        }
    }

    /// The folder of the installed package in which files of experts lie.
    pub const fn experts_folder(self) -> &'static str {
        match self {
            Self::Vllm => "vllm/model_executor/layers/fused_moe/configs",
            Self::Sglang => "sglang/srt/layers/moe/moe_runner/triton_utils/configs",
        }
    }
}

/// SGLang's folder for a version of Triton: `triton_3_8_0`.
pub fn triton_folder(version: &str) -> String {
    format!("triton_{}", version.replace('.', "_"))
}

/// The version of Triton that a folder of SGLang is for.
pub fn triton_of(folder: &str) -> Option<String> {
    let version = folder.strip_prefix("triton_")?.replace('_', ".");
    version.split('.').all(|part| part.parse::<u32>().is_ok()).then_some(version)
}

named_enum! {
    /// The word for the types of weights and activations. 16-bit types have none.
    DtypeWord("dtype word") {
        None = "",
        Float32 = "float32",
        Fp8W8A8 = "fp8_w8a8",
        Fp8W8A16 = "fp8_w8a16",
        Fp8Channelwise = "fp8_w8a8_channelwise",
        Int8W8A8 = "int8_w8a8",
        Int8W8A16 = "int8_w8a16",
        Int4W4A16 = "int4_w4a16",
        /// Stands in published names and is never looked for.
        Bf16 = "bf16",
        /// Stands in published names and is never looked for.
        Float8 = "float8",
    }
}

impl DtypeWord {
    /// Bytes of an element of the tiles in shared memory.
    pub const fn tile_bytes(self) -> u64 {
        match self {
            Self::Float32 => 4,
            Self::Fp8W8A8 | Self::Fp8Channelwise | Self::Int8W8A8 | Self::Float8 => 1,
            _ => 2,
        }
    }
}

/// The kernel that computes a layer of experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Backend {
    #[default]
    Triton,
    /// vLLM's for int4 on AMD GPUs. Its files have other keys.
    FlyDsl,
}

/// What the name of a file for a layer of experts says.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileKey {
    /// Experts of one GPU.
    pub experts: u64,
    /// The width of one expert on one GPU.
    pub n: u64,
    /// The device's name as in file names: `NVIDIA_H200`.
    pub device: String,
    pub word: DtypeWord,
    /// The rows and columns of the weights that share a scale.
    pub block: Option<[u32; 2]>,
    /// Whether SGLang's weights have a scale for each row. vLLM does not say.
    pub per_channel: bool,
    /// Whether SGLang reads the file only for the second multiplication.
    pub down: bool,
    pub backend: Backend,
}

/// What the name of a file for a multiplication says.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DenseKey {
    /// Rows of the weights of one GPU.
    pub n: u64,
    pub k: u64,
    pub device: String,
    pub word: DtypeWord,
    pub block: Option<[u32; 2]>,
}

/// What the name of a file for vLLM's state-space kernel says.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StateSpaceKey {
    pub head: u64,
    pub state: u64,
    pub device: String,
    pub cache: String,
}

/// A file's name, by what it is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileName {
    Experts(FileKey),
    Dense(DenseKey),
    StateSpace(StateSpaceKey),
    /// A table of something else that one of the projects ships, with what it is for.
    Other {
        name: String,
        about: &'static str,
    },
}

impl FileKey {
    /// A key of 16-bit weights.
    pub fn new(experts: u64, n: u64, device: impl Into<String>) -> Self {
        Self {
            experts,
            n,
            device: device.into(),
            word: DtypeWord::None,
            block: None,
            per_channel: false,
            down: false,
            backend: Backend::Triton,
        }
    }

    /// The name under which a server looks for the file.
    pub fn name(&self, consumer: Consumer) -> String {
        let Self { experts, n, device, .. } = self;
        let word = Word(self.word);
        let block = Block(self.block, consumer);
        let per_channel = if self.per_channel { ",per_channel_quant=True" } else { "" };
        let backend = if self.backend == Backend::FlyDsl { ",backend=flydsl" } else { "" };
        let down = if self.down { "_down" } else { "" };
        format!("E={experts},N={n},device_name={device}{word}{block}{per_channel}{backend}{down}.json")
    }

    /// Reads a name of either project.
    pub fn parse(name: &str) -> Result<Self, Invalid> {
        match FileName::parse(name)? {
            FileName::Experts(key) => Ok(key),
            _ => Err(Invalid::new("file name", format_args!("`{name:.200}`"), EXPERTS)),
        }
    }

    /// The name without the device, which problems of one layer share.
    pub fn on(&self, device: impl Into<String>) -> Self {
        Self { device: device.into(), ..self.clone() }
    }
}

impl DenseKey {
    /// The name under which a server looks for the file.
    pub fn name(&self, consumer: Consumer) -> String {
        let Self { n, k, device, .. } = self;
        format!("N={n},K={k},device_name={device}{}{}.json", Word(self.word), Block(self.block, consumer))
    }
}

impl FileName {
    /// Reads the name of a file, without its folder.
    pub fn parse(name: &str) -> Result<Self, Invalid> {
        let refused = |given: &dyn fmt::Display, expected: &str| {
            Invalid::new("file name", given, expected).within(format_args!("`{name:.200}`"))
        };
        let Some(mut rest) = name.strip_suffix(".json") else {
            return Err(refused(&"no `.json` at the end", "a file of JSON"));
        };
        if let Some((_, about)) = OTHERS.iter().find(|(is_one, _)| is_one(rest)) {
            return Ok(Self::Other { name: name.to_owned(), about });
        }
        let mut down = false;
        if let Some(before) = rest.strip_suffix("_down") {
            (rest, down) = (before, true);
        }
        let mut parts =
            Parts::read(rest).map_err(|part| refused(&format_args!("the part `{part:.100}`"), PARTS))?;
        let key = match parts.first() {
            "E" => parts.experts(down).map(Self::Experts),
            "N" if !down => parts.dense().map(Self::Dense),
            "headdim" if !down => parts.state_space().map(Self::StateSpace),
            _ => return Err(refused(&"another name", &format!("{EXPERTS}, or {DENSE}"))),
        };
        let key = key.map_err(|invalid| invalid.within(format_args!("`{name:.200}`")))?;
        match parts.0.first() {
            None => Ok(key),
            Some((left, value)) => Err(refused(&format_args!("the part `{left}={value:.100}`"), PARTS)),
        }
    }

    /// The name of the file that holds a problem's config. `None` if a server reads no files for such problems.
    ///
    /// Experts count as gated: their first multiplication is twice as wide as their second is deep.
    pub fn of(problem: &Problem, hardware: &Hardware, consumer: Consumer) -> Option<Self> {
        let device = device_name(hardware, consumer, problem.op != Op::FusedMoe);
        let fp8 = problem.a_dtype.is_fp8();
        let block = (fp8 && problem.scaling == Scaling::Block).then_some([128, 128]);
        if problem.op == Op::ScaledMm {
            let word = DtypeWord::Fp8W8A8;
            return block.map(|block| {
                Self::Dense(DenseKey { n: problem.n, k: problem.k, device, word, block: Some(block) })
            });
        }
        let groups = problem.groups.filter(|_| problem.op == Op::FusedMoe)?;
        let word = match problem.a_dtype {
            DType::BFloat16 | DType::Float16 => DtypeWord::None,
            DType::Float32 => DtypeWord::Float32,
            _ if fp8 => DtypeWord::Fp8W8A8,
            _ => return None,
        };
        let (n, is_down) = match groups.stage? {
            Stage::GateUp => (problem.n / 2, false),
            Stage::Down => (problem.k, true),
        };
        let sglang = consumer == Consumer::Sglang;
        let per_channel = sglang && problem.scaling == Scaling::Row;
        let down = sglang && is_down;
        Some(Self::Experts(FileKey {
            word,
            block,
            per_channel,
            down,
            ..FileKey::new(groups.count.into(), n, device)
        }))
    }

    /// The name under which a server looks for the file.
    pub fn name(&self, consumer: Consumer) -> String {
        match self {
            Self::Experts(key) => key.name(consumer),
            Self::Dense(key) => key.name(consumer),
            Self::StateSpace(StateSpaceKey { head, state, device, cache }) => {
                format!("headdim={head},dstate={state},device_name={device},cache_dtype={cache}.json")
            }
            Self::Other { name, .. } => name.clone(),
        }
    }

    /// The device's name in the file's name.
    pub fn device(&self) -> Option<&str> {
        match self {
            Self::Experts(key) => Some(&key.device),
            Self::Dense(key) => Some(&key.device),
            Self::StateSpace(key) => Some(&key.device),
            Self::Other { .. } => None,
        }
    }
}

const EXPERTS: &str = "a name such as `E=128,N=384,device_name=NVIDIA_H200,dtype=fp8_w8a8.json`";
const DENSE: &str = "`N=2112,K=7168,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json`";
const PARTS: &str =
    "E, N, K, device_name, dtype, block_shape, per_channel_quant or backend, once each and in this order";

/// Says by a name without `.json` whether it is one.
type IsOne = fn(&str) -> bool;

/// What the other tables are for that both projects ship.
const OTHERS: [(IsOne, &str); 10] = [
    (
        |name| name.starts_with("causal_conv1d_") || name.starts_with("update_sconv_"),
        "Helion kernels of SGLang",
    ),
    (|name| name.starts_with("nvidia_"), "Helion kernels of vLLM"),
    (|name| name.starts_with("lora_shrink,") || name.starts_with("lora_expand,"), "LoRA of SGLang"),
    (|name| name.ends_with(".plans"), "plans of LoRA in SGLang"),
    (|name| name.starts_with("provider="), "LoRA on experts in SGLang"),
    (
        |name| name.starts_with("epilogue,") || name.starts_with("strategy,"),
        "SGLang's kernels before experts",
    ),
    (|name| name.starts_with("world="), "SGLang's sequence-parallel collectives"),
    (|name| name.starts_with("GEMM-"), "AITER's multiplications"),
    (|name| name.starts_with("mxfp8_gemv_"), "multiplications by a vector in MXFP8"),
    (|name| name.starts_with("minimax_m3_"), "MiniMax-M3 on gfx950"),
];

struct Word(DtypeWord);

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == DtypeWord::None { Ok(()) } else { write!(f, ",dtype={}", self.0) }
    }
}

struct Block(Option<[u32; 2]>, Consumer);

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0, self.1) {
            (None, _) => Ok(()),
            (Some([n, k]), Consumer::Vllm) => write!(f, ",block_shape=[{n},{k}]"),
            (Some([n, k]), Consumer::Sglang) => write!(f, ",block_shape=[{n}, {k}]"),
        }
    }
}

/// The parts of a name that are not read yet, in order.
struct Parts<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Parts<'a> {
    /// Splits at commas, except within brackets. The error is the part without `=`.
    fn read(text: &'a str) -> Result<Self, &'a str> {
        let mut inside = false;
        let pieces = text.split(move |c| {
            inside = (inside || c == '[') && c != ']';
            c == ',' && !inside
        });
        pieces.map(|piece| piece.split_once('=').ok_or(piece)).collect::<Result<_, _>>().map(Self)
    }

    fn first(&self) -> &'a str {
        self.0.first().map_or("", |(key, _)| key)
    }

    /// Takes the next part if it has this key.
    fn take(&mut self, key: &str) -> Option<&'a str> {
        let (_, value) = *self.0.first().filter(|(next, _)| *next == key)?;
        self.0.remove(0);
        Some(value)
    }

    fn number(&mut self, key: &'static str) -> Result<u64, Invalid> {
        let given = self.take(key).unwrap_or("no such part");
        let digits = given.bytes().all(|b| b.is_ascii_digit()) && (given == "0" || !given.starts_with('0'));
        let number = given.parse().ok().filter(|_| digits);
        number.ok_or_else(|| Invalid::new(key, format_args!("`{given:.100}`"), "a number"))
    }

    fn device(&mut self) -> Result<String, Invalid> {
        let device = self.take("device_name").map(str::to_owned);
        device.ok_or_else(|| Invalid::new("device_name", "no such part", "the device, such as NVIDIA_H200"))
    }

    fn word(&mut self) -> Result<DtypeWord, Invalid> {
        self.take("dtype").map_or(Ok(DtypeWord::None), |word| {
            word.parse().map_err(|_| {
                let words: Vec<&str> = DtypeWord::ALL[1..8].iter().map(|word| word.as_str()).collect();
                Invalid::new("dtype", format_args!("`{word:.100}`"), format!("one of {}", words.join(" ")))
            })
        })
    }

    fn block(&mut self) -> Result<Option<[u32; 2]>, Invalid> {
        let Some(given) = self.take("block_shape") else { return Ok(None) };
        let read = || {
            let (n, k) = given.strip_prefix('[')?.strip_suffix(']')?.split_once(',')?;
            Some([n.parse().ok()?, k.strip_prefix(' ').unwrap_or(k).parse().ok()?])
        };
        let block = read().filter(|[n, k]| *n > 0 && *k > 0);
        block.map(Some).ok_or_else(|| {
            Invalid::new("block_shape", format_args!("`{given:.100}`"), "two numbers, such as [128,128]")
        })
    }

    fn experts(&mut self, down: bool) -> Result<FileKey, Invalid> {
        Ok(FileKey {
            experts: self.number("E")?,
            n: self.number("N")?,
            device: self.device()?,
            word: self.word()?,
            block: self.block()?,
            per_channel: self.flag("per_channel_quant", "True")?,
            backend: if self.flag("backend", "flydsl")? { Backend::FlyDsl } else { Backend::Triton },
            down,
        })
    }

    /// A part that has one value if it is there.
    fn flag(&mut self, key: &'static str, value: &'static str) -> Result<bool, Invalid> {
        match self.take(key) {
            None => Ok(false),
            Some(given) if given == value => Ok(true),
            Some(given) => {
                Err(Invalid::new(key, format_args!("`{given:.100}`"), format!("`{value}`, or no such part")))
            }
        }
    }

    fn dense(&mut self) -> Result<DenseKey, Invalid> {
        Ok(DenseKey {
            n: self.number("N")?,
            k: self.number("K")?,
            device: self.device()?,
            word: self.word()?,
            block: self.block()?,
        })
    }

    fn state_space(&mut self) -> Result<StateSpaceKey, Invalid> {
        Ok(StateSpaceKey {
            head: self.number("headdim")?,
            state: self.number("dstate")?,
            device: self.device()?,
            cache: self.take("cache_dtype").unwrap_or_default().to_owned(),
        })
    }
}

/// What drivers call the devices of the catalogue, where that is not its name in the catalogue.
const REPORTED: [(&str, &str); 3] = [
    ("nvidia-h100", "NVIDIA H100 80GB HBM3"),
    ("nvidia-a100", "NVIDIA A100-SXM4-80GB"),
    ("nvidia-h100-pcie", "NVIDIA H100 PCIe"),
];

/// The device part of the names that a server looks for on this hardware.
///
/// A device's own name is kept. Hardware that only has its name in the catalogue gets the name that its driver reports.
pub fn device_name(hardware: &Hardware, consumer: Consumer, dense: bool) -> String {
    let listed = hardware.listed().is_some_and(|listed| listed.name == hardware.name);
    let reported = REPORTED.iter().find(|(slug, _)| listed && hardware.slug.as_str() == *slug);
    let name = reported.map_or(hardware.name.as_str(), |(_, name)| name);
    match consumer {
        Consumer::Sglang => name.replace(' ', "_"),
        Consumer::Vllm => {
            let words = name.split(|c: char| c.is_whitespace() || c == '/').filter(|word| !word.is_empty());
            let device = words.collect::<Vec<_>>().join("_");
            // All products of the family share the files of experts.
            let family = !dense && device.split('_').any(|word| word == "H200");
            if family { "NVIDIA_H200".to_owned() } else { device }
        }
    }
}

/// The hardware of the catalogue that reports a device's name.
pub fn hardware_of(device: &str) -> Option<Hardware> {
    find(&device.replace('_', " "))
}

#[cfg(test)]
mod tests;
