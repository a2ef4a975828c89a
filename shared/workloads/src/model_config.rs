//! A model's sizes from its `config.json`, in the spellings of Hugging Face.

use diode_core::{DType, Scaling, named_enum};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The sizes that a model's multiplications follow from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Architecture {
    /// `model_type`. Empty if the config has none.
    pub family: String,
    pub hidden: u64,
    /// All blocks, whatever they hold.
    pub blocks: u64,
    pub attention: Option<Attention>,
    /// What replaces attention in some blocks: gated delta rules, as in Qwen3-Next.
    pub linear_attention: Option<LinearAttention>,
    /// The feed-forward layer of blocks without experts.
    pub dense: Option<Mlp>,
    pub experts: Option<RoutedExperts>,
    /// The words of the last layer.
    pub vocab: Option<u64>,
    pub shipped: Shipped,
    /// The multiplications of a model that has no blocks. Then all other sizes are 0 or absent.
    pub listed: Vec<Listed>,
    /// Why multiplications beside the experts' do not follow from this config.
    pub unknown: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Attention {
    Heads {
        blocks: u64,
        heads: u64,
        kv_heads: u64,
        head_dim: u64,
        /// Whether the first product also computes a gate for each head's output.
        gate: bool,
    },
    /// Queries, keys and values go through low ranks (MLA).
    Latent {
        blocks: u64,
        heads: u64,
        query_rank: Option<u64>,
        kv_rank: u64,
        nope_dim: u64,
        rope_dim: u64,
        value_dim: u64,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LinearAttention {
    pub blocks: u64,
    pub key_heads: u64,
    pub value_heads: u64,
    pub key_dim: u64,
    pub value_dim: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mlp {
    pub blocks: u64,
    pub intermediate: u64,
    /// Whether the first product computes a gate as well.
    pub gated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RoutedExperts {
    pub blocks: u64,
    pub count: u64,
    pub top_k: u64,
    /// The size of one expert between its two multiplications.
    pub intermediate: u64,
    /// The size that goes in and comes out. In most models the hidden size.
    pub hidden: u64,
    pub gated: bool,
    /// How many experts of this size every token goes through.
    pub shared: u64,
    /// The size of a shared layer that is no expert.
    pub shared_intermediate: Option<u64>,
}

/// A multiplication that a config lists: `{"name": "conv1", "n": 64, "k": 147, "count": 1, "rows": 12544}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    pub name: String,
    pub n: u64,
    pub k: u64,
    /// How often one pass through the model computes it.
    #[serde(default = "one")]
    pub count: u64,
    /// The rows of each image, sentence or example.
    #[serde(default = "one")]
    pub rows: u64,
}

const fn one() -> u64 {
    1
}

named_enum! {
    /// How weights are stored.
    Quantization("quantization") {
        /// 16 bits.
        Bf16 = "bf16",
        /// fp8 with one scale for each matrix.
        Fp8Tensor = "fp8-tensor",
        /// fp8 with one scale for each column of weights and each token.
        Fp8Channel = "fp8-channel",
        /// fp8 with scales for blocks of 128×128 weights.
        Fp8Block = "fp8-block",
    }
}

impl Quantization {
    pub const fn dtype(self) -> DType {
        match self {
            Self::Bf16 => DType::BFloat16,
            _ => DType::Float8E4M3,
        }
    }

    pub const fn scaling(self) -> Scaling {
        match self {
            Self::Bf16 => Scaling::None,
            Self::Fp8Tensor => Scaling::Tensor,
            Self::Fp8Channel => Scaling::Row,
            Self::Fp8Block => Scaling::Block,
        }
    }
}

/// How a checkpoint's weights are stored, by its config.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub enum Shipped {
    As(Quantization),
    /// In a form whose kernels read no files of tuned configs: its name.
    Otherwise(String),
}

/// Why a text is no config of a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("got text that is not JSON ({0}), expected a model's config.json")]
    NotJson(String),
    #[error("got {given}, expected a JSON object with a model's sizes")]
    NotAnObject { given: &'static str },
    #[error("got no `{key}`{also}, expected a model's config.json with it")]
    Missing { key: &'static str, also: String },
    #[error("{key}: got {given}, expected {expected}")]
    Wrong { key: String, given: String, expected: &'static str },
}

impl Architecture {
    /// Reads a `config.json`. Of multimodal models it is the language model that counts.
    ///
    /// ```
    /// use diode_workloads::model_config::Architecture;
    ///
    /// let config = r#"{"model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48,
    ///     "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
    ///     "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768}"#;
    /// let experts = Architecture::from_json(config)?.experts.unwrap();
    /// assert_eq!((experts.count, experts.top_k, experts.intermediate), (128, 8, 768));
    /// # Ok::<(), diode_workloads::model_config::ConfigError>(())
    /// ```
    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| ConfigError::NotJson(error.to_string()))?;
        Self::from_value(&value)
    }

    pub fn from_value(value: &Value) -> Result<Self, ConfigError> {
        let Value::Object(outer) = value else {
            let given = match value {
                Value::Array(_) => "a list",
                Value::String(_) => "a string",
                Value::Number(_) => "a number",
                _ => "a single word",
            };
            return Err(ConfigError::NotAnObject { given });
        };
        Fields::of(outer).architecture()
    }
}

/// A config's keys. Those of the language model hide those around it.
struct Fields<'a> {
    inner: &'a Map<String, Value>,
    outer: &'a Map<String, Value>,
    family: String,
}

/// Models whose feed-forward layer has no gate.
const WITHOUT_GATE: [&str; 27] = [
    "albert",
    "bert",
    "bloom",
    "clip",
    "clip_text_model",
    "clip_vision_model",
    "distilbert",
    "dinov2",
    "deberta-v2",
    "electra",
    "falcon",
    "gpt2",
    "gpt_bigcode",
    "gpt_neox",
    "hubert",
    "nemotron",
    "nemotron_h",
    "opt",
    "phi",
    "roberta",
    "siglip",
    "siglip_vision_model",
    "starcoder2",
    "vit",
    "wav2vec2",
    "whisper",
    "xlm-roberta",
];

/// How families begin whose experts have a width of their own.
const WITH_OWN_WIDTH: [&str; 9] = [
    "qwen2_moe",
    "qwen3_moe",
    "qwen3_next",
    "qwen3_5_moe",
    "qwen3_vl_moe",
    "deepseek_v",
    "glm4_moe",
    "glm_moe_dsa",
    "ernie4_5_moe",
];

impl<'a> Fields<'a> {
    fn of(outer: &'a Map<String, Value>) -> Self {
        let nested = |key: &str| outer.get(key).and_then(Value::as_object);
        // Qwen's models of several kinds of input put the language model one level deeper.
        let thinker = nested("thinker_config").and_then(|thinker| thinker.get("text_config")?.as_object());
        let inner = ["text_config", "llm_config", "language_config"].into_iter().find_map(nested);
        let inner = inner.or(thinker).unwrap_or(outer);
        let family = [inner, outer].iter().find_map(|map| map.get("model_type")?.as_str());
        Self { inner, outer, family: family.unwrap_or_default().to_owned() }
    }

    fn value(&self, key: &str) -> Option<&'a Value> {
        let mut map = self.inner;
        let mut parts = key.split('.').peekable();
        while let Some(part) = parts.next() {
            let value = map.get(part).filter(|value| !value.is_null())?;
            if parts.peek().is_none() {
                return Some(value);
            }
            map = value.as_object()?;
        }
        None
    }

    /// The first of these keys that the config has, as a size above 0. Of a list, its first number.
    fn size(&self, keys: &[&str]) -> Result<Option<u64>, ConfigError> {
        /// No size of a model reaches this, and products of two stay exact.
        const MOST: u64 = 1 << 31;
        let found = keys.iter().find_map(|key| Some((key, self.value(key)?)));
        let Some((key, value)) = found else { return Ok(None) };
        let number = value.as_array().and_then(|list| list.first()).unwrap_or(value);
        match number.as_u64() {
            Some(size) if (1..=MOST).contains(&size) => Ok(Some(size)),
            _ => Err(ConfigError::Wrong {
                key: (*key).to_owned(),
                given: shortened(value),
                expected: "a size, from 1 to 2147483648",
            }),
        }
    }

    /// As [`Self::size`], where 0 means that there is none.
    fn size_or_none(&self, keys: &[&str]) -> Result<Option<u64>, ConfigError> {
        let is_zero = keys.iter().find_map(|key| self.value(key)).and_then(Value::as_u64) == Some(0);
        if is_zero { Ok(None) } else { self.size(keys) }
    }

    fn need(&self, keys: &[&'static str]) -> Result<u64, ConfigError> {
        self.size(keys)?.ok_or_else(|| ConfigError::Missing {
            key: keys[0],
            also: match &keys[1..] {
                [] => String::new(),
                others => format!(" (or {})", others.join(", ")),
            },
        })
    }

    fn word(&self, key: &str) -> Option<&'a str> {
        self.value(key)?.as_str()
    }

    fn architecture(self) -> Result<Architecture, ConfigError> {
        if let Some(listed) = self.value("multiplications") {
            return self.listed(listed);
        }
        let hidden = self.need(&["hidden_size", "d_model", "n_embd", "dim"])?;
        let blocks =
            self.need(&["num_hidden_layers", "n_layer", "n_layers", "encoder_layers", "num_layers"])?;
        // A model of speech or translation has as many blocks again that write.
        let writing = if self.value("encoder_layers").is_some() {
            self.size_or_none(&["decoder_layers"])?
        } else {
            None
        };
        let blocks = blocks + writing.unwrap_or(0);
        let experts = self.experts(hidden, blocks)?;
        let linear_attention = self.linear_attention(blocks)?;
        let attending = blocks - linear_attention.as_ref().map_or(0, |linear| linear.blocks);
        Ok(Architecture {
            attention: self.attention(hidden, attending)?,
            linear_attention,
            dense: self.dense(hidden, blocks, experts.as_ref())?,
            vocab: self.size_or_none(&["vocab_size"])?,
            shipped: self.shipped()?,
            listed: Vec::new(),
            unknown: self.unknown(),
            family: self.family,
            hidden,
            blocks,
            experts,
        })
    }

    fn listed(self, listed: &Value) -> Result<Architecture, ConfigError> {
        let wrong = |given: String| ConfigError::Wrong {
            key: "multiplications".to_owned(),
            given,
            expected: r#"a list of multiplications, such as [{"name": "head", "n": 1000, "k": 2048}]"#,
        };
        let listed: Vec<Listed> =
            serde_json::from_value(listed.clone()).map_err(|error| wrong(error.to_string()))?;
        let sizes = |one: &Listed| [one.n, one.k, one.count, one.rows];
        if let Some(one) =
            listed.iter().find(|one| sizes(one).iter().any(|size| !(1..=1 << 31).contains(size)))
        {
            return Err(wrong(format!("a size of {:.40} that is 0 or too large", one.name)));
        }
        if listed.is_empty() {
            return Err(wrong("an empty list".to_owned()));
        }
        Ok(Architecture {
            shipped: self.shipped()?,
            family: self.family,
            hidden: 0,
            blocks: 0,
            attention: None,
            linear_attention: None,
            dense: None,
            experts: None,
            vocab: None,
            listed,
            unknown: None,
        })
    }

    fn attention(&self, hidden: u64, blocks: u64) -> Result<Option<Attention>, ConfigError> {
        let keys = ["num_attention_heads", "n_head", "n_heads", "encoder_attention_heads", "num_heads"];
        let Some(heads) = self.size(&keys)? else { return Ok(None) };
        if let Some(kv_rank) = self.size_or_none(&["kv_lora_rank"])? {
            return Ok(Some(Attention::Latent {
                blocks,
                heads,
                query_rank: self.size_or_none(&["q_lora_rank"])?,
                kv_rank,
                nope_dim: self.need(&["qk_nope_head_dim"])?,
                rope_dim: self.need(&["qk_rope_head_dim"])?,
                value_dim: self.need(&["v_head_dim"])?,
            }));
        }
        let kv_heads = self.size(&["num_key_value_heads", "attn_config.kv_n_heads", "num_kv_heads"])?;
        let head_dim = match self.size(&["head_dim", "attention_head_dim", "d_kv"])? {
            Some(size) => size,
            None if hidden.is_multiple_of(heads) => hidden / heads,
            None => {
                return Err(ConfigError::Wrong {
                    key: "num_attention_heads".to_owned(),
                    given: heads.to_string(),
                    expected: "a divisor of hidden_size, since there is no head_dim",
                });
            }
        };
        let gate = self.value("attn_output_gate").and_then(Value::as_bool);
        let gate =
            gate.unwrap_or(self.family.starts_with("qwen3_next") || self.family.starts_with("qwen3_5"));
        Ok(Some(Attention::Heads { blocks, heads, kv_heads: kv_heads.unwrap_or(heads), head_dim, gate }))
    }

    fn linear_attention(&self, blocks: u64) -> Result<Option<LinearAttention>, ConfigError> {
        let Some(value_heads) = self.size(&["linear_num_value_heads"])? else { return Ok(None) };
        let kinds = self.value("layer_types").and_then(Value::as_array);
        let linear = match kinds {
            Some(kinds) => {
                kinds.iter().filter(|kind| kind.as_str() == Some("linear_attention")).count() as u64
            }
            None => blocks - blocks / self.size(&["full_attention_interval"])?.unwrap_or(4),
        };
        Ok(Some(LinearAttention {
            blocks: linear.min(blocks),
            key_heads: self.need(&["linear_num_key_heads"])?,
            value_heads,
            key_dim: self.need(&["linear_key_head_dim"])?,
            value_dim: self.need(&["linear_value_head_dim"])?,
        }))
    }

    fn experts(&self, hidden: u64, blocks: u64) -> Result<Option<RoutedExperts>, ConfigError> {
        let keys = [
            "num_experts",
            "n_routed_experts",
            "num_local_experts",
            "moe_num_experts",
            "ffn_config.moe_num_experts",
        ];
        let counts: Vec<(&str, u64)> =
            keys.iter().filter_map(|key| Some((*key, self.value(key)?.as_u64()?))).collect();
        if let Some([(first, one), (key, other)]) = counts.array_windows().find(|[(_, a), (_, b)]| a != b) {
            return Err(ConfigError::Wrong {
                key: (*key).to_owned(),
                given: format!("{other} beside {first} of {one}"),
                expected: "the same number",
            });
        }
        let Some(count) = self.size_or_none(&keys)?.filter(|count| *count > 1) else { return Ok(None) };
        let top_k = self.need(&[
            "num_experts_per_tok",
            "moe_topk",
            "moe_k",
            "moe_top_k",
            "top_k_experts",
            "num_experts_per_token",
            "ffn_config.moe_top_k",
        ])?;
        if top_k > count {
            return Err(ConfigError::Wrong {
                key: "num_experts_per_tok".to_owned(),
                given: top_k.to_string(),
                expected: "at most the number of experts",
            });
        }
        let widths = [
            "moe_intermediate_size",
            "expert_hidden_dim",
            "expert_ffn_hidden_size",
            "ffn_config.ffn_hidden_size",
            "intermediate_size",
        ];
        // In these families the last one is the width of blocks without experts.
        let needs_own = WITH_OWN_WIDTH.iter().any(|begins| self.family.starts_with(begins));
        let intermediate = self.need(if needs_own { &widths[..1] } else { &widths })?;
        let shared_keys =
            ["n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts"];
        let shared_sizes =
            ["shared_expert_intermediate_size", "shared_intermediate_size", "share_expert_dim"];
        let llama4 = self.family.starts_with("llama4").then_some(intermediate);
        Ok(Some(RoutedExperts {
            blocks: self.blocks_with_experts(blocks)?,
            count,
            top_k,
            intermediate,
            hidden: self.size(&["moe_latent_size"])?.unwrap_or(hidden),
            gated: self.is_gated(),
            shared: self.size_or_none(&shared_keys)?.unwrap_or(0),
            shared_intermediate: self.size_or_none(&shared_sizes)?.or(llama4),
        }))
    }

    fn blocks_with_experts(&self, blocks: u64) -> Result<u64, ConfigError> {
        if let Some(places) = self.value("moe_layers").and_then(Value::as_array) {
            return Ok((places.len() as u64).min(blocks));
        }
        if let Some(pattern) = self.word("hybrid_override_pattern") {
            return Ok(pattern.chars().filter(|kind| *kind == 'E').count() as u64);
        }
        let first = self.value("first_k_dense_replace").and_then(Value::as_u64).unwrap_or(0);
        let only = self.value("mlp_only_layers").and_then(Value::as_array).map_or(0, Vec::len) as u64;
        let step = self.size(&["interleave_moe_layer_step", "decoder_sparse_step", "moe_layer_freq"]);
        // In some configs `moe_layer_freq` is a list with 1 for each block of experts.
        let step = step.ok().flatten().unwrap_or(1);
        Ok(blocks.saturating_sub(first + only) / step)
    }

    fn dense(
        &self,
        hidden: u64,
        blocks: u64,
        experts: Option<&RoutedExperts>,
    ) -> Result<Option<Mlp>, ConfigError> {
        let blocks = blocks - experts.map_or(0, |experts| experts.blocks.min(blocks));
        if blocks == 0 {
            return Ok(None);
        }
        let keys = [
            "intermediate_size_mlp",
            "dense_intermediate_size",
            "intermediate_size",
            "ffn_hidden_size",
            "ffn_dim",
            "encoder_ffn_dim",
            "d_ff",
            "n_inner",
        ];
        let intermediate = match (self.size(&keys)?, self.size(&["mlp_ratio"])) {
            (Some(size), _) => size,
            (None, Ok(Some(ratio))) => ratio * hidden,
            (None, _) if self.family == "gpt2" => 4 * hidden,
            (None, _) => self.need(&["intermediate_size", "ffn_dim", "encoder_ffn_dim", "d_ff"])?,
        };
        Ok(Some(Mlp { blocks, intermediate, gated: self.is_gated() }))
    }

    fn is_gated(&self) -> bool {
        match self.word("feed_forward_proj") {
            Some(form) => form.starts_with("gated"),
            None if self.family == "t5" || self.family == "mt5" => false,
            None => {
                !WITHOUT_GATE.contains(&self.family.as_str()) && self.word("mlp_hidden_act") != Some("relu2")
            }
        }
    }

    fn unknown(&self) -> Option<String> {
        let state_space = [
            "mamba_d_state",
            "mamba_num_heads",
            "ssm_state_size",
            "mamba_n_heads",
            "ssm_cfg",
            "conv_L_cache",
        ];
        let key = state_space.iter().find(|key| self.value(key).is_some())?;
        Some(format!(
            "`{key}`: blocks without attention, whose multiplications are not known here; only experts are"
        ))
    }

    /// The value of the first of these keys that the config has, around the language model or in it.
    fn around(&self, keys: [&'static str; 2]) -> Option<(&'static str, &'a Value)> {
        let of = |map: &'a Map<String, Value>, key| map.get(key).filter(|value| !value.is_null());
        keys.into_iter().find_map(|key| Some((key, of(self.outer, key).or_else(|| of(self.inner, key))?)))
    }

    fn shipped(&self) -> Result<Shipped, ConfigError> {
        const FLOATS: [&str; 8] =
            ["bfloat16", "float16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "half", "auto"];
        let wrong = |key: &str, value, expected| {
            Err(ConfigError::Wrong { key: key.to_owned(), given: shortened(value), expected })
        };
        if let Some((key, value)) = self.around(["torch_dtype", "dtype"]) {
            let word = value.as_str().map(|word| word.strip_prefix("torch.").unwrap_or(word));
            if !word.is_some_and(|word| FLOATS.contains(&word)) {
                return wrong(key, value, "a type of floating-point numbers, such as bfloat16");
            }
        }
        match self.around(["quantization_config", "compression_config"]) {
            Some((_, Value::Object(config))) => Ok(stored(config)),
            Some((key, value)) => wrong(key, value, "an object with a quant_method"),
            None => Ok(Shipped::As(Quantization::Bf16)),
        }
    }
}

/// The form that a `quantization_config` names.
fn stored(config: &Map<String, Value>) -> Shipped {
    let word = |key: &str| config.get(key).and_then(Value::as_str).unwrap_or_default();
    match word("quant_method") {
        "fp8" => match config.get("weight_block_size").filter(|size| !size.is_null()) {
            Some(size) if *size == serde_json::json!([128, 128]) => Shipped::As(Quantization::Fp8Block),
            Some(size) => Shipped::Otherwise(format!("fp8 in blocks of {}", shortened(size))),
            None => Shipped::As(Quantization::Fp8Tensor),
        },
        "fbgemm_fp8" => Shipped::As(Quantization::Fp8Channel),
        "modelopt" if word("quant_algo") == "FP8" => Shipped::As(Quantization::Fp8Tensor),
        "compressed-tensors" => compressed(config),
        "" => Shipped::Otherwise("a quantization_config without quant_method".to_owned()),
        other => Shipped::Otherwise(other.to_owned()),
    }
}

/// The form of a checkpoint of llm-compressor, by its first group of layers.
fn compressed(config: &Map<String, Value>) -> Shipped {
    let groups = config.get("config_groups").and_then(Value::as_object);
    let weights = groups.and_then(|groups| groups.values().next()?.get("weights")?.as_object());
    let Some(weights) = weights else { return Shipped::Otherwise("compressed-tensors".to_owned()) };
    let word = |key: &str| weights.get(key).and_then(Value::as_str).unwrap_or_default();
    let bits = weights.get("num_bits").and_then(Value::as_u64).unwrap_or(0);
    let by_128 = weights.get("block_structure") == Some(&serde_json::json!([128, 128]));
    match (word("type"), bits, word("strategy")) {
        ("float", 8, "channel") => Shipped::As(Quantization::Fp8Channel),
        ("float", 8, "tensor") => Shipped::As(Quantization::Fp8Tensor),
        ("float", 8, "block") if by_128 => Shipped::As(Quantization::Fp8Block),
        (kind, bits, strategy) => Shipped::Otherwise(format!("{kind} of {bits} bits by {strategy}")),
    }
}

/// A value as JSON, cut to what fits in a message.
fn shortened(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(40) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests;
