//! Models of the catalogue that share the name of a file.

use std::sync::OnceLock;

use crate::catalogue::{Model, models};
use crate::file_names::{Consumer, FileKey};
use crate::layers::{ExpertsLayer, Serving};
use crate::model_config::Architecture;

/// A model that looks for a file, and how it is served then.
#[derive(Debug, Clone, PartialEq)]
pub struct User {
    pub model: &'static str,
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

impl User {
    /// Whether so few GPUs share the layer that the model is often served so.
    pub fn is_usual(&self) -> bool {
        const MOST_GPUS: u64 = 16;
        self.serving.tensor_parallel.max(self.serving.expert_parallel) <= MOST_GPUS
    }
}

/// The models of the catalogue that look for a file, each on as few GPUs as possible.
pub fn users(key: &FileKey, consumer: Consumer) -> Vec<User> {
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
    let alike =
        |user: &User| (user.layer.hidden, user.layer.top_k) == (users[0].layer.hidden, users[0].layer.top_k);
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
