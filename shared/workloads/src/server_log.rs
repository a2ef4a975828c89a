//! Lines in which vLLM and SGLang name the files that they looked for.

use std::collections::HashSet;

use diode_core::named_enum;
use serde::Serialize;

use crate::file_names::{Consumer, FileName, triton_of};
use crate::named::Named;

named_enum! {
    /// What a server did about a file.
    Outcome("outcome") {
        /// It reads the file.
        Used = "used",
        /// It found the file of another version of Triton, and reads that one.
        OtherTriton = "other-triton",
        /// It found no file, and takes its default.
        Missing = "missing",
        /// SGLang found no file for the second multiplication, and takes the first one's.
        NoDown = "no-down",
    }
}

/// A file that a log names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mention {
    pub consumer: Consumer,
    pub outcome: Outcome,
    pub name: FileName,
    /// The path that the server prints, the first one if it prints several.
    pub path: String,
    /// The version of Triton that runs, as the folder's name gives it.
    pub triton: Option<String>,
    /// The number of the first line that says so, from 1.
    pub line: usize,
}

/// A line that seems to be about tuned configs, and is not understood.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotUnderstood {
    /// From 1.
    pub line: usize,
    pub text: String,
    pub why: String,
}

/// What a server's log says about tuned configs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Log {
    /// Each file once, in order.
    pub mentions: Vec<Mention>,
    /// The kernels for experts that the server chose. Files matter only to `TRITON`.
    pub backends: Vec<String>,
    /// Whether SGLang runs deterministically, and reads no file.
    pub is_deterministic: bool,
    pub not_understood: Vec<NotUnderstood>,
    /// The model's name or path, and the GPUs among which it is split, as the server prints its settings.
    pub model: Option<String>,
    pub tensor_parallel: Option<u64>,
}

/// By what a mention counts once.
type Seen = (Consumer, Outcome, FileName, Option<String>);

/// The most characters of a line that are shown.
const SHOWN: usize = 300;

impl Log {
    pub fn read(text: &str) -> Self {
        let mut log = Self::default();
        let mut seen = HashSet::new();
        for (at, line) in text.lines().enumerate() {
            log.line(at + 1, line, &mut seen);
        }
        log
    }

    /// The files that the server looked for and did not find, each once. SGLang does without a file for the second
    /// multiplication if it finds one for the first.
    pub fn missing(&self) -> impl Iterator<Item = &Mention> {
        self.mentions
            .iter()
            .filter(|mention| matches!(mention.outcome, Outcome::Missing | Outcome::OtherTriton))
    }

    /// The model of the catalogue that the log tells.
    pub fn told(&self) -> Option<Named> {
        self.model.as_deref().and_then(Named::find)
    }

    /// Whether the server chose kernels for experts, and none of them reads files.
    pub fn reads_no_files(&self) -> bool {
        let reads = |name: &String| name.to_uppercase().contains("TRITON");
        self.is_deterministic || (!self.backends.is_empty() && !self.backends.iter().any(reads))
    }

    fn line(&mut self, number: usize, line: &str, seen: &mut HashSet<Seen>) {
        if self.model.is_none() {
            let given = setting(line, &["model='", "'model': '", "model_path='"]);
            let name = given.and_then(|rest| rest.split_once('\'')).map(|(name, _)| name);
            self.model = name.filter(|name| !name.is_empty()).map(str::to_owned);
        }
        if self.tensor_parallel.is_none() {
            let given = setting(line, &["tensor_parallel_size=", "'tensor_parallel_size': ", "tp_size="]);
            let number = given.and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
            self.tensor_parallel = number.and_then(|number| number.parse().ok());
        }
        if let Some(rest) = after(line, "Using ")
            && let Some((backend, _)) = rest.split_once(" MoE backend")
        {
            let name = backend.split_whitespace().next().unwrap_or_default().trim_matches('\'');
            if !self.backends.iter().any(|known| known == name) {
                self.backends.push(name.to_owned());
            }
            return;
        }
        if line.contains("Deterministic inference is enabled, using default MoE kernel config") {
            self.is_deterministic = true;
            return;
        }
        if let Some(form) = FORMS.iter().find(|form| line.contains(form.begins)) {
            match form.read(number, line) {
                Ok(mention) => {
                    let Mention { consumer, outcome, name, triton, .. } = &mention;
                    if seen.insert((*consumer, *outcome, name.clone(), triton.clone())) {
                        self.mentions.push(mention);
                    }
                }
                Err(why) => self.doubt(number, line, why),
            }
        } else if is_about_configs(line) {
            self.doubt(number, line, "no release that we know prints such a line".to_owned());
        }
    }

    fn doubt(&mut self, line: usize, text: &str, why: String) {
        let shown: String = text.trim().chars().take(SHOWN).collect();
        self.not_understood.push(NotUnderstood { line, text: shown, why });
    }
}

/// A line about a tuned config that does not decide which file is read.
const ASIDES: [&str; 6] = [
    "down_moe config BLOCK_SIZE_M=",
    "MoE TMA is enabled",
    "Clamped BLOCK_SIZE_K up to",
    "LoRA kernel configs",
    "FlyDSL MoE config",
    "Mamba SSU config",
];

/// Whether a line mentions a file of tuned configs.
fn is_about_configs(line: &str) -> bool {
    let named = line.contains(".json") && (line.contains("device_name=") || line.contains("Config file"));
    let default = line.contains("sub-optimal") && line.contains("onfig");
    (named || default) && !ASIDES.iter().any(|aside| line.contains(aside))
}

/// A form of lines: the words with which it begins, and those that stand before the path.
struct Form {
    begins: &'static str,
    before_path: &'static str,
    /// `None` where both projects print it, and the path tells.
    consumer: Option<Consumer>,
    outcome: Outcome,
}

const FORMS: [Form; 12] = {
    const fn form(
        begins: &'static str,
        before_path: &'static str,
        consumer: Option<Consumer>,
        outcome: Outcome,
    ) -> Form {
        Form { begins, before_path, consumer, outcome }
    }
    use Consumer::{Sglang, Vllm};
    const AT: &str = "Config file not found at ";
    const FROM: &str = "Using configuration from ";
    const KERNEL: &str = "Using MoE kernel config from ";
    [
        form("Fallback to triton version", AT, Some(Sglang), Outcome::OtherTriton),
        form("Down MoE config file not found at ", "file not found at ", Some(Sglang), Outcome::NoDown),
        form("Using MoE kernel config with down_moe=False", AT, Some(Sglang), Outcome::NoDown),
        form(KERNEL, KERNEL, Some(Sglang), Outcome::Used),
        form("Using default MoE kernel config", AT, Some(Sglang), Outcome::Missing),
        form("Using default MoE config", AT, Some(Vllm), Outcome::Missing),
        form("Using default W8A8 Block", AT, None, Outcome::Missing),
        form("for MoE layer", FROM, Some(Vllm), Outcome::Used),
        form("Using configuration from ", FROM, None, Outcome::Used),
        form("Using SSM config from ", "Using SSM config from ", Some(Vllm), Outcome::Used),
        form("Using tuned FlyDSL MoE config from ", "config from ", Some(Vllm), Outcome::Used),
        form("Using default FlyDSL MoE config", AT, Some(Vllm), Outcome::Missing),
    ]
};

impl Form {
    fn read(&self, line: usize, text: &str) -> Result<Mention, String> {
        let rest = after(text, self.before_path).ok_or("the path is missing")?;
        let (path, _) = rest.split_once(".json").ok_or("no path that ends in .json")?;
        let path = format!("{}.json", path.trim_start_matches(['[', '\'', '"', ' ']));
        let mut parts = path.rsplit('/');
        let name = parts.next().unwrap_or_default();
        let triton = parts.next().and_then(triton_of);
        let name = FileName::parse(name).map_err(|invalid| invalid.to_string())?;
        let consumer = self.consumer.unwrap_or({
            if path.contains("sglang") || path.contains(", ") { Consumer::Sglang } else { Consumer::Vllm }
        });
        Ok(Mention { consumer, outcome: self.outcome, name, path, triton, line })
    }
}

/// What follows the first of these beginnings that stands alone.
fn setting<'a>(line: &'a str, beginnings: &[&str]) -> Option<&'a str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    beginnings.iter().find_map(|begins| {
        let mut places = line.match_indices(begins).map(|(at, _)| at);
        let at = places.find(|at| !line[..*at].ends_with(is_word))?;
        Some(&line[at + begins.len()..])
    })
}

fn after<'a>(text: &'a str, words: &str) -> Option<&'a str> {
    text.split_once(words).map(|(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_names::{DtypeWord, FileKey};

    const VLLM: &str = "/usr/lib/python3/dist-packages/vllm/model_executor/layers/fused_moe/configs";
    const SGLANG: &str = "/opt/sglang/srt/layers/moe";
    const QWEN: &str = "E=128,N=384,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=";

    fn one(line: &str) -> (Consumer, Outcome, FileName, Option<String>) {
        let log = Log::read(line);
        let [mention] = &log.mentions[..] else { panic!("{line}: {log:?}") };
        assert!(log.not_understood.is_empty(), "{log:?}");
        (mention.consumer, mention.outcome, mention.name.clone(), mention.triton.clone())
    }

    fn qwen() -> FileKey {
        let block = Some([128, 128]);
        FileKey { word: DtypeWord::Fp8W8A8, block, ..FileKey::new(128, 384, "NVIDIA_H200") }
    }

    /// Lines of releases 0.9, 0.10.1, 0.14 and 0.33.
    #[test]
    fn four_releases_of_vllm_are_understood() {
        let missing = "Using default MoE config. Performance might be sub-optimal! Config file not found at";
        let name = format!("{QWEN}[128,128].json");
        let wanted = (Consumer::Vllm, Outcome::Missing, FileName::Experts(qwen()), None);
        for line in [
            format!(
                "(VllmWorker rank=0 pid=1013) WARNING 06-10 13:03:12 [fused_moe.py:668] {missing} {VLLM}/{name}"
            ),
            format!(
                "(VllmWorker TP0 pid=81) WARNING 08-21 09:05:19 [fused_moe.py:727] {missing} ['/tuned/{name}', '{VLLM}/{name}']"
            ),
            format!(
                "(Worker_TP0 pid=1013) WARNING 01-15 09:05:19 [fused_moe.py:886] {missing} ['{VLLM}/{name}']"
            ),
            format!(
                "(Worker_TP0 pid=7) WARNING 11-07 09:05:19 [fused_moe.py:1166] {missing} /my, tuned/{name}, {VLLM}/{name}"
            ),
            format!("{missing} {VLLM}/{name}\u{1b}[0m"),
        ] {
            assert_eq!(one(&line), wanted, "{line}");
        }
        let used = one(&format!(
            "INFO 11-07 [fused_moe.py:1151] Using configuration from {VLLM}/{name} for MoE layer."
        ));
        assert_eq!((used.0, used.1), (Consumer::Vllm, Outcome::Used));
        let dense = "N=2112,K=7168,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json";
        let folder = "/x/vllm/model_executor/layers/quantization/utils/configs";
        let line = format!(
            "WARNING [fp8_utils.py:955] Using default W8A8 Block FP8 kernel config. Performance might be sub-optimal! Config file not found at {folder}/{dense}"
        );
        let (consumer, outcome, name, _) = one(&line);
        assert_eq!(
            (consumer, outcome, name.name(Consumer::Vllm).as_str()),
            (Consumer::Vllm, Outcome::Missing, dense)
        );
        let line = format!("Using configuration from {folder}/{dense} for W8A8 Block FP8 kernel.");
        assert_eq!(one(&line).1, Outcome::Used);
        let state = "Using SSM config from /x/headdim=64,dstate=128,device_name=NVIDIA_H200,cache_dtype=float32.json for selective_state_update.";
        assert!(matches!(one(state).2, FileName::StateSpace(_)));
    }

    /// Lines of releases 0.5.3 and 0.5.23.
    #[test]
    fn two_releases_of_sglang_are_understood() {
        let name = format!("{QWEN}[128, 128].json");
        let down = format!("{QWEN}[128, 128]_down.json");
        let link = "you can create them with https://github.com/sgl-project/sglang/tree/main/benchmark/kernels/fused_moe_triton";
        let old = format!("{SGLANG}/fused_moe_triton/configs/triton_3_4_0");
        let new = format!("{SGLANG}/moe_runner/triton_utils/configs/triton_3_8_0");
        let sub = "Performance might be sub-optimal!";
        let at = "Config file not found at";
        for (line, outcome, is_down, triton) in [
            (
                format!(
                    "[2025-10-28 09:42:18 TP0] Using default MoE kernel config. {sub} {at} {old}/{name}, {link}"
                ),
                Outcome::Missing,
                false,
                "3.4.0",
            ),
            (
                format!(
                    "[2025-10-28 09:42:18 TP0] Using MoE kernel config with down_moe=False. {sub} {at} {old}/{down}, {link}"
                ),
                Outcome::NoDown,
                true,
                "3.4.0",
            ),
            (
                format!("[2026-11-02 09:42:18 TP0] Using MoE kernel config from {new}/{name}."),
                Outcome::Used,
                false,
                "3.8.0",
            ),
            (
                format!(
                    "[2026-11-02 09:42:18 TP0] {at} {new}/{name}. Fallback to triton version 3.5.1 and use MoE kernel config from /x/triton_3_5_1/{name}. {sub}"
                ),
                Outcome::OtherTriton,
                false,
                "3.8.0",
            ),
            (
                format!(
                    "[2026-11-02 09:42:18 TP0] Using default MoE kernel config. {sub} {at} {new}/{down}, {link}"
                ),
                Outcome::Missing,
                true,
                "3.8.0",
            ),
            (
                format!(
                    "[2026-11-02 09:42:18 TP0] Down MoE config file not found at {new}/{down}; reusing the tuned up-projection config without TMA. Performance might be sub-optimal."
                ),
                Outcome::NoDown,
                true,
                "3.8.0",
            ),
        ] {
            let key = FileKey { down: is_down, ..qwen() };
            let wanted = (Consumer::Sglang, outcome, FileName::Experts(key), Some(triton.to_owned()));
            assert_eq!(one(&line), wanted, "{line}");
        }
        let dense = "Using default W8A8 Block INT8 kernel config. Performance might be sub-optimal! Config file not found at /x/sglang/kernels/ops/gemm/configs/N=512,K=7168,device_name=NVIDIA_H20,dtype=int8_w8a8,block_shape=[128, 128].json";
        assert_eq!(one(dense).0, Consumer::Sglang);
        let log = Log::read("[x] Deterministic inference is enabled, using default MoE kernel config.");
        assert!(log.reads_no_files() && log.not_understood.is_empty());
    }

    #[test]
    fn a_file_counts_once_whoever_names_it() {
        let line = |rank| {
            format!(
                "(Worker_TP{rank} pid=7) WARNING Using default MoE config. Performance might be sub-optimal! Config file not found at {VLLM}/{QWEN}[128,128].json\n"
            )
        };
        let log = Log::read(&(line(0) + "Loading weights\n" + &line(1)));
        assert_eq!(log.mentions.len(), 1);
        assert_eq!((log.mentions[0].line, log.missing().count()), (1, 1));
    }

    #[test]
    fn the_kernel_tells_whether_files_matter() {
        let line = |name: &str| {
            format!("INFO Using {name} Fp8 MoE backend out of potential backends: ['{name}', 'MARLIN'].")
        };
        let read = |text: &str| Log::read(text);
        assert!(!read(&line("TRITON")).reads_no_files());
        assert!(read(&line("DEEPGEMM")).reads_no_files());
        assert_eq!(read(&line("DEEPGEMM")).backends, ["DEEPGEMM"]);
        assert!(!read("nothing about it").reads_no_files());
    }

    #[test]
    fn the_settings_tell_the_model() {
        for (line, model, tensor_parallel) in [
            (
                "INFO [core.py:76] Initializing a V1 LLM engine (v0.33.0) with config: speculative_model='x', model='Qwen/Qwen3-235B-A22B-FP8', tensor_parallel_size=4, pipeline_parallel_size=1",
                "Qwen/Qwen3-235B-A22B-FP8",
                4,
            ),
            ("non-default args: {'model': 'Qwen/Qwen3-8B', 'tensor_parallel_size': 16}", "Qwen/Qwen3-8B", 16),
            (
                "server_args=ServerArgs(model_path='deepseek-ai/DeepSeek-V3', tp_size=8, ep_size=1)",
                "deepseek-ai/DeepSeek-V3",
                8,
            ),
        ] {
            let log = Log::read(line);
            assert_eq!(
                (log.model.as_deref(), log.tensor_parallel),
                (Some(model), Some(tensor_parallel)),
                "{line}"
            );
        }
        assert_eq!(Log::read("draft_model_path='x', model='").model, None);
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (line, why) in [
            ("Config file missing: E=8,N=1,device_name=D.json", "no release that we know prints such a line"),
            ("Using default MoE config. Performance might be sub-optimal!", "the path is missing"),
            (
                "Using default MoE config. Performance might be sub-optimal! Config file not found at /x/E=8,N=",
                "no path that ends in .json",
            ),
            (
                "Using default MoE config. Config file not found at /x/E=8,H=1,device_name=D.json",
                "N: got `no such part`",
            ),
            ("Using default XYZ config. Performance might be sub-optimal!", "no release that we know"),
        ] {
            let log = Log::read(line);
            let [doubt] = &log.not_understood[..] else { panic!("{line}: {log:?}") };
            assert!(doubt.why.contains(why) && doubt.text == line && doubt.line == 1, "{doubt:?}");
            assert!(log.mentions.is_empty());
        }
        for line in [
            "Loaded config.json",
            "POST /v1/chat",
            "Up MoE TMA is enabled (USE_TMA=true in /x/E=8,N=1,device_name=D.json)",
        ] {
            assert_eq!(Log::read(line), Log::default(), "{line}");
        }
    }
}
