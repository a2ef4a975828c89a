//! What a pasted text is about: a model's name, its config.json, or a server's log.

use diode_core::hardware::find;
use diode_workloads::catalogue::{self, names_fp8, users};
use diode_workloads::file_names::{Consumer, FileName, hardware_of};
use diode_workloads::model_config::{Architecture, Quantization};
use diode_workloads::named::Named;
use diode_workloads::served::Reader;
use diode_workloads::server_log::Log;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Understood {
    /// A model of the catalogue.
    Model(Told),
    /// A config.json.
    Config,
    Log(ServerLog),
    /// Nothing: a sentence that says what would be understood.
    Nothing(String),
}

/// A model, with what the text says of how it is served.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Told {
    pub model: String,
    pub quantization: Option<Quantization>,
    pub tensor_parallel: Option<u64>,
    /// The hardware's slug.
    pub hardware: Option<String>,
    pub reader: Option<Reader>,
}

/// What a server's log says of files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ServerLog {
    pub missing: Vec<MissingFile>,
    /// How many files the server found.
    pub found: usize,
    /// The slug of the hardware that the first missing file is for.
    pub hardware: Option<String>,
    /// Whether the server chose kernels that read no files.
    pub reads_no_files: bool,
    /// Lines that seem to be about files and are not understood.
    pub doubts: Vec<Doubt>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Doubt {
    /// From 1.
    pub line: usize,
    pub text: String,
    pub why: String,
}

/// A file that a server did not find.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MissingFile {
    /// From 1.
    pub line: usize,
    pub name: String,
    pub server: Consumer,
    /// The models of the catalogue that look for it.
    pub users: Vec<User>,
    /// Whether it is for a multiplication without experts, which any model may have.
    pub is_dense: bool,
}

/// A model that looks for a file, and how it is served then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    pub model: String,
    pub tensor_parallel: u64,
    pub expert_parallel: u64,
    pub quantization: Quantization,
}

/// What is understood here.
const KNOWN: &str = "a model's name such as Qwen3-235B-A22B, its config.json, or a log of vLLM or SGLang with a line such as \
                     `Config file not found at …`";

/// Says that a name is unknown.
pub(super) fn unknown(name: &str) -> String {
    let near = catalogue::similar(name);
    let near = if near.is_empty() { String::new() } else { format!(" Near: {}.", near.join(", ")) };
    format!("No model is called `{name:.100}`.{near} Understood are {KNOWN}.")
}

impl Understood {
    pub(super) fn read(text: &str) -> Self {
        let text = text.trim();
        if text.starts_with('{') {
            return match Architecture::from_json(text) {
                Ok(_) => Self::Config,
                Err(error) => Self::Nothing(format!("No config of a model: {error}.")),
            };
        }
        let log = Log::read(text);
        if log != Log::default() {
            return Self::Log(ServerLog::new(&log));
        }
        match (Named::find(text), text.lines().count()) {
            (Some(named), _) => {
                let quantization = names_fp8(text).then(|| named.form_for(Reader::Vllm).ok()).flatten();
                Self::Model(Told { model: named.name, quantization, ..Told::default() })
            }
            (None, 1) => Told::of_sentence(text).map_or_else(|| Self::Nothing(unknown(text)), Self::Model),
            (None, 0) => Self::Nothing(format!("Paste {KNOWN}.")),
            (None, lines) => Self::Nothing(format!(
                "None of the {lines} lines names a file of tuned configs. Understood are {KNOWN}."
            )),
        }
    }
}

impl Told {
    /// Reads `I serve Qwen3-235B in fp8 on 4 H200s`. `None` if no word, or two together, name a model.
    fn of_sentence(text: &str) -> Option<Self> {
        /// No such sentence has more words.
        const MOST: usize = 40;
        let apart = |c: char| c.is_whitespace() || ",;:()=\"'".contains(c);
        let words: Vec<String> =
            text.split(apart).filter(|word| !word.is_empty()).take(MOST).map(str::to_lowercase).collect();
        let pairs = words.windows(2).map(|pair| pair.join("-"));
        let named = words.iter().cloned().chain(pairs).find_map(|word| Named::find(&word))?;
        let mut told = Self { model: named.name.clone(), ..Self::default() };
        let number = |text: &str| text.parse::<u64>().ok();
        let mut before = "";
        for word in words.iter().map(|word| word.trim_end_matches(['.', '!', '?']).trim_start_matches('-')) {
            if word == "bf16" {
                told.quantization = Some(Quantization::Bf16);
            } else if names_fp8(word) {
                told.quantization = Some(named.fp8());
            } else if let Ok(reader) = word.parse() {
                told.reader = Some(reader);
            }
            // `4 H200s`, `4xH200`, `4 GPUs`
            let (digits, rest) =
                word.split_at(word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len()));
            let gpu = rest.trim_start_matches(['x', '×']).trim_end_matches('s');
            let hardware = Some(gpu).filter(|gpu| gpu.len() > 2).and_then(find);
            let gpus = match before {
                // `--tp 4`, `tp4`
                "tp" => number(word),
                _ if hardware.is_some() || gpu == "gpu" => number(digits).or(number(before)),
                _ => word.strip_prefix("tp").and_then(number),
            };
            told.tensor_parallel = gpus.or(told.tensor_parallel);
            told.hardware = hardware.map(|hardware| hardware.slug.to_string()).or(told.hardware);
            before = word;
        }
        told.tensor_parallel = told.tensor_parallel.filter(|gpus| (1..=1024).contains(gpus));
        Some(told)
    }
}

impl ServerLog {
    fn new(log: &Log) -> Self {
        let missing: Vec<_> = log.missing().collect();
        let hardware = missing.iter().find_map(|mention| hardware_of(mention.name.device()?));
        Self {
            found: log.mentions.len() - missing.len(),
            hardware: hardware.map(|hardware| hardware.slug.to_string()),
            reads_no_files: log.reads_no_files(),
            doubts: log
                .not_understood
                .iter()
                .map(|one| Doubt { line: one.line, text: one.text.clone(), why: one.why.clone() })
                .collect(),
            missing: missing
                .into_iter()
                .map(|mention| MissingFile {
                    line: mention.line,
                    name: mention.name.name(mention.consumer),
                    server: mention.consumer,
                    users: users_of(&mention.name, mention.consumer),
                    is_dense: matches!(mention.name, FileName::Dense(_)),
                })
                .collect(),
        }
    }
}

/// The models that look for a file, as they are usually served if any is.
fn users_of(name: &FileName, consumer: Consumer) -> Vec<User> {
    let FileName::Experts(key) = name else { return Vec::new() };
    let mut all = users(key, consumer);
    if all.iter().any(catalogue::User::is_usual) {
        all.retain(catalogue::User::is_usual);
    }
    let user = |user: catalogue::User<'_>| User {
        model: user.model.to_owned(),
        tensor_parallel: user.serving.tensor_parallel,
        expert_parallel: user.serving.expert_parallel,
        quantization: user.serving.quantization,
    };
    all.into_iter().map(user).collect()
}
