//! Models by name, with the facts of their public configs.
//!
//! `catalogue.json` has one model a line: the keys of its `config.json` that sizes follow from, or its
//! multiplications where it has no such config.

use std::sync::OnceLock;

use diode_core::named_enum;
use serde::Deserialize;
use serde_json::Value;

use crate::file_names::{Consumer, FileKey};
use crate::layers::{ExpertsLayer, Serving};
use crate::model_config::{Architecture, ConfigError, Quantization};

named_enum! {
    /// What a model is for, or how its feed-forward layers are built.
    Tag("tag") {
        Dense = "dense",
        Experts = "experts",
        Encoder = "encoder",
        Vision = "vision",
        Diffusion = "diffusion",
        Speech = "speech",
        Recommender = "recommender",
    }
}

/// A model of the catalogue.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    pub name: String,
    #[serde(default)]
    pub aliases: Vec<String>,
    pub tags: Vec<Tag>,
    /// The forms in which its authors publish weights, as far as kernels with tuned configs run them.
    pub ships: Vec<Quantization>,
    config: Value,
}

impl Model {
    pub fn architecture(&self) -> Result<Architecture, ConfigError> {
        Architecture::from_value(&self.config)
    }

    /// The form of fp8 in which its authors publish weights, if they do.
    pub fn fp8(&self) -> Option<Quantization> {
        self.ships.iter().copied().find(|form| *form != Quantization::Bf16)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.name).chain(&self.aliases).map(String::as_str)
    }
}

/// Every model, in the file's order.
pub fn models() -> &'static [Model] {
    static MODELS: OnceLock<Vec<Model>> = OnceLock::new();
    // A test reads the file, so that it never is unreadable.
    MODELS.get_or_init(|| serde_json::from_str(include_str!("catalogue.json")).unwrap_or_default())
}

/// Words at the end of a checkpoint's name that say nothing of sizes.
const ENDINGS: [&str; 18] = [
    "instruct", "chat", "base", "it", "pt", "fp8", "bf16", "dynamic", "thinking", "2507", "0905", "hf",
    "v0.1", "v0.2", "v0.3", "original", "block", "preview",
];

/// The model of this name, or of a checkpoint's name: `Qwen/Qwen3-30B-A3B-Instruct-2507-FP8`.
pub fn find(name: &str) -> Option<&'static Model> {
    let wanted = plain(name);
    let mut wanted = wanted.as_str();
    loop {
        if let Some(model) = models().iter().find(|model| model.names().any(|known| plain(known) == wanted)) {
            return Some(model);
        }
        let (front, last) = wanted.rsplit_once('-')?;
        if !ENDINGS.contains(&last) {
            return None;
        }
        wanted = front;
    }
}

/// Whether a checkpoint's name says that its weights are fp8.
pub fn names_fp8(name: &str) -> bool {
    plain(name).split('-').any(|word| word == "fp8")
}

/// Names of the catalogue that resemble one that it does not have, the likeliest first.
pub fn similar(name: &str) -> Vec<&'static str> {
    const MOST: usize = 5;
    let wanted = plain(name);
    let words = |text: &str| text.split(['-', '.']).map(str::to_owned).collect::<Vec<_>>();
    let asked = words(&wanted);
    let letters = |text: &str| text.replace(['-', '.'], "");
    let all = letters(&wanted);
    let shared = |known: &str| {
        let known = plain(known);
        let is_part = all.len() > 2 && letters(&known).contains(&all);
        let known = words(&known);
        asked.iter().filter(|word| known.contains(word)).count() + usize::from(is_part)
    };
    let begins = |model: &Model| all.len() > 2 && letters(&plain(&model.name)).starts_with(&all);
    let score = |model: &Model| {
        model.names().map(shared).max().unwrap_or(0) + if begins(model) { asked.len() + 1 } else { 0 }
    };
    let mut found: Vec<(usize, &str)> = models()
        .iter()
        .map(|model| (score(model), model.name.as_str()))
        .filter(|(score, _)| *score > 0)
        .collect();
    found.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
    found.into_iter().take(MOST).map(|(_, name)| name).collect()
}

/// A name without its owner, in lower case.
fn plain(name: &str) -> String {
    name.trim().rsplit('/').next().unwrap_or_default().to_lowercase().replace(['_', ' '], "-")
}

/// A model that looks for a file, and how it is served then.
#[derive(Debug, Clone, PartialEq)]
pub struct User<'a> {
    pub model: &'a str,
    pub serving: Serving,
    pub layer: ExpertsLayer,
}

/// The models of the catalogue that have experts.
fn with_experts() -> &'static [(&'static str, Architecture)] {
    static READ: OnceLock<Vec<(&str, Architecture)>> = OnceLock::new();
    let read = |model: &'static Model| {
        let architecture = model.architecture().ok().filter(|read| read.experts.is_some())?;
        Some((model.name.as_str(), architecture))
    };
    READ.get_or_init(|| models().iter().filter_map(read).collect())
}

impl User<'_> {
    /// Whether so few GPUs share the layer that the model is often served so.
    pub fn is_usual(&self) -> bool {
        const MOST_GPUS: u64 = 16;
        self.serving.tensor_parallel.max(self.serving.expert_parallel) <= MOST_GPUS
    }
}

/// The models of the catalogue that look for a file, each on as few GPUs as possible.
pub fn users(key: &FileKey, consumer: Consumer) -> Vec<User<'static>> {
    let user = |(model, architecture): &(&'static str, Architecture)| {
        let (serving, layer) = architecture.serving_for(key, consumer)?;
        Some(User { model, serving, layer })
    };
    with_experts().iter().filter_map(user).collect()
}

/// The models that share a file though their layers differ, in words. None if their layers are alike.
pub(crate) fn collision(key: &FileKey, consumer: Consumer) -> Option<String> {
    let mut users = users(key, consumer);
    users.retain(User::is_usual);
    let alike = |user: &User<'_>| {
        (user.layer.hidden, user.layer.top_k) == (users[0].layer.hidden, users[0].layer.top_k)
    };
    if users.iter().all(alike) {
        return None;
    }
    let words = users.iter().map(|user| {
        let Serving { tensor_parallel, expert_parallel, .. } = user.serving;
        let spread =
            if expert_parallel > 1 { format!(", expert parallel {expert_parallel}") } else { String::new() };
        format!("{} at tensor parallel {tensor_parallel}{spread}", user.model)
    });
    Some(format!("the name is shared by {}", words.collect::<Vec<_>>().join(" and ")))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::file_names::Consumer;
    use crate::layers::Serving;

    #[test]
    fn every_model_is_read_and_has_multiplications() {
        let models: Vec<Model> = serde_json::from_str(include_str!("catalogue.json")).unwrap();
        assert!(models.len() >= 70);
        let mut names = HashSet::new();
        for model in &models {
            let architecture = model.architecture().unwrap_or_else(|error| panic!("{}: {error}", model.name));
            let serving =
                Serving { tensor_parallel: 1, expert_parallel: 1, quantization: Quantization::Bf16 };
            let layers = architecture.dense_layers(&serving).unwrap();
            assert!(!layers.is_empty(), "{}", model.name);
            assert_eq!(architecture.experts.is_some(), model.tags.contains(&Tag::Experts), "{}", model.name);
            if architecture.experts.is_some() {
                let layer = architecture.experts_layer(&serving, Consumer::Vllm).unwrap();
                assert!(layer.problems(4096).is_ok(), "{}", model.name);
            }
            assert!(
                layers.iter().all(|layer| layer.problem(4096, Quantization::Bf16).is_ok()),
                "{}",
                model.name
            );
            for name in model.names() {
                assert!(names.insert(plain(name)), "{name} stands twice");
            }
        }
        assert_eq!(super::models(), models);
        for tag in Tag::ALL {
            assert!(models.iter().any(|model| model.tags.contains(tag)), "{tag}");
        }
    }

    /// The weights of all multiplications, beside the number of parameters that authors state. Embeddings and norms
    /// are not among them.
    #[test]
    fn sizes_add_up_to_the_parameters_that_authors_state() {
        for (name, billions) in [
            ("Llama-3.1-8B", 8.03),
            ("Llama-3.1-70B", 70.6),
            ("Llama-3.1-405B", 405.9),
            ("Qwen2.5-7B", 7.6),
            ("Qwen2.5-72B", 72.7),
            ("Qwen3-8B", 8.2),
            ("Qwen3-32B", 32.8),
            ("Mistral-7B", 7.25),
            ("Mistral-Large-123B", 122.6),
            ("Gemma-3-27B", 27.4),
            ("Phi-4", 14.7),
            ("Mixtral-8x7B", 46.7),
            ("Mixtral-8x22B", 140.6),
            ("Qwen1.5-MoE-A2.7B", 14.3),
            ("Qwen2-57B-A14B", 57.4),
            ("Qwen3-30B-A3B", 30.5),
            ("Qwen3-235B-A22B", 235.1),
            ("Qwen3-Coder-480B-A35B", 480.2),
            ("Qwen3-Next-80B-A3B", 80.0),
            ("DeepSeek-V2-Lite", 15.7),
            ("DeepSeek-V2", 235.7),
            ("DeepSeek-V3", 671.0),
            ("Kimi-K2", 1026.0),
            ("GLM-4.5", 355.0),
            ("GLM-4.5-Air", 106.0),
            ("gpt-oss-20b", 20.9),
            ("gpt-oss-120b", 116.8),
            ("Llama-4-Scout", 108.0),
            ("Llama-4-Maverick", 400.0),
            ("OLMoE-1B-7B", 6.9),
            ("MiniMax-M2", 230.0),
            ("Phi-3.5-MoE", 41.9),
            ("DBRX", 131.6),
        ] {
            let model = find(name).unwrap().architecture().unwrap();
            let serving =
                Serving { tensor_parallel: 1, expert_parallel: 1, quantization: Quantization::Bf16 };
            let dense: u64 = model.dense_layers(&serving).unwrap().iter().map(|l| l.n * l.k * l.count).sum();
            let experts = model.experts.as_ref().map_or(0, |e| {
                let matrices = if e.gated { 3 } else { 2 };
                e.blocks * e.count * matrices * e.intermediate * e.hidden
            });
            let embedding = model.vocab.unwrap_or(0) * model.hidden;
            let counted = (dense + experts + embedding) as f64 / 1e9;
            // Small models share the embedding with the last layer.
            let shared = counted - embedding as f64 / 1e9;
            let near = |sum: f64| (sum / billions - 1.0).abs() < 0.02;
            assert!(near(counted) || near(shared), "{name}: {counted:.2} or {shared:.2}, stated {billions}");
        }
    }

    #[test]
    fn checkpoints_are_found_by_the_names_that_people_paste() {
        for (name, found) in [
            ("Qwen/Qwen3-30B-A3B-Instruct-2507-FP8", "Qwen3-30B-A3B"),
            ("qwen3-235b", "Qwen3-235B-A22B"),
            ("meta-llama/Llama-3.3-70B-Instruct", "Llama-3.1-70B"),
            ("mistralai/Mixtral-8x7B-Instruct-v0.1", "Mixtral-8x7B"),
            ("deepseek-ai/DeepSeek-R1", "DeepSeek-V3"),
            ("zai-org/GLM-4.6-FP8", "GLM-4.5"),
            ("google/gemma-3-27b-it", "Gemma-3-27B"),
            ("meta-llama/Llama-4-Maverick-17B-128E-Instruct-FP8", "Llama-4-Maverick-17B-128E"),
        ] {
            assert_eq!(find(name).map(|model| model.name.as_str()), Some(found), "{name}");
        }
        assert_eq!(find("Qwen3-31B"), None);
        assert!(similar("Qwen3-31B-A3B").contains(&"Qwen3-30B-A3B"));
        for (part, name) in
            [("deepseek", "DeepSeek-V3"), ("deepseekv", "DeepSeek-V3"), ("mixtral8", "Mixtral-8x7B")]
        {
            assert!(similar(part).contains(&name), "{part}: {:?}", similar(part));
        }
        assert!(names_fp8("Qwen/Qwen3-30B-A3B-FP8") && !names_fp8("Qwen3-30B-A3B"));
    }
}

#[cfg(test)]
mod collisions_tests {
    use super::*;
    use crate::file_names::DtypeWord;

    #[test]
    fn models_share_names() {
        let block = Some([128, 128]);
        let key = FileKey { word: DtypeWord::Fp8W8A8, block, ..FileKey::new(128, 768, "NVIDIA_H200") };
        let said = collision(&key, Consumer::Vllm).unwrap();
        for model in ["Qwen3-30B-A3B at tensor parallel 1", "Qwen3-235B-A22B at tensor parallel 2"] {
            assert!(said.contains(model), "{said}");
        }
        let alone = FileKey::new(8, 14_336, "NVIDIA_H200");
        assert_eq!(users(&alone, Consumer::Vllm).len(), 1);
        assert_eq!(collision(&alone, Consumer::Vllm), None);
        assert_eq!(collision(&FileKey::new(3, 5, "D"), Consumer::Vllm), None);
    }
}
