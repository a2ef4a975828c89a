//! The multiplications of a model, as its server runs them on one GPU.

use diode_core::{Groups, Layout, Op, Problem, ProblemFields, Rows, Scaling, Stage};
use serde::{Deserialize, Serialize};

use crate::file_names::{Consumer, DenseKey, DtypeWord, FileKey};
use crate::model_config::{Architecture, Attention, Mlp, Quantization, RoutedExperts};

/// How a model is spread over GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Serving {
    pub tensor_parallel: u64,
    /// 1 where every GPU holds a part of every expert.
    pub expert_parallel: u64,
    pub quantization: Quantization,
}

/// Why a model cannot be served so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayersError {
    #[error("{what}: got {size}, expected a multiple of {parts} ({why})")]
    NotDivisible { what: &'static str, size: u64, parts: u64, why: &'static str },
    #[error("expert parallelism: got {given} with tensor parallelism {tensor}, expected {expected}")]
    Spread { given: u64, tensor: u64, expected: String },
    #[error("block scales: got {given}, expected {expected}")]
    Blocks { given: String, expected: &'static str },
    #[error("the model has no experts")]
    NoExperts,
    #[error("{0}")]
    Unknown(String),
    #[error("{0}")]
    Invalid(diode_core::Invalid),
}

/// A multiplication by weights that every token goes through: rows × K by K × N.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DenseLayer {
    /// `qkv`, `o`, `gate-up`, `down`, …
    pub name: String,
    pub n: u64,
    pub k: u64,
    /// How often one forward pass computes it.
    pub count: u64,
    /// The rows of each token, image or example.
    pub rows: u64,
    /// Whether quantised checkpoints quantise it.
    pub quantized: bool,
    /// The widths of the weights that a server keeps side by side, and other programs apart: queries, keys and values,
    /// or gate and up. Empty if there is one.
    #[serde(skip)]
    pub parts: Vec<u64>,
}

impl DenseLayer {
    fn new(name: &str, n: u64, k: u64, count: u64) -> Self {
        Self { name: name.to_owned(), n, k, count, rows: 1, quantized: true, parts: Vec::new() }
    }

    /// The same layer with its parts side by side, and then each of its parts.
    pub fn apart(&self) -> impl Iterator<Item = Self> {
        let mut parts = self.parts.clone();
        parts.dedup();
        let one = |n| Self { name: format!("{}-part", self.name), n, parts: Vec::new(), ..self.clone() };
        std::iter::once(self.clone()).chain(parts.into_iter().map(one).collect::<Vec<_>>())
    }

    /// A multiplication by weights of a size that a file names.
    pub fn of_sizes(n: u64, k: u64) -> Self {
        Self::new("weights", n, k, 1)
    }

    /// The name of the file for weights scaled by blocks, on a device that the server calls so.
    pub fn key(&self, device: impl Into<String>) -> DenseKey {
        let (n, k, word, block) = (self.n, self.k, DtypeWord::Fp8W8A8, Some([128, 128]));
        DenseKey { n, k, device: device.into(), word, block }
    }

    /// The problem of this many tokens.
    pub fn problem(&self, tokens: u64, quantization: Quantization) -> Result<Problem, LayersError> {
        let quantization = if self.quantized { quantization } else { Quantization::Bf16 };
        let scaling = quantization.scaling();
        let op = if scaling == Scaling::None { Op::Mm } else { Op::ScaledMm };
        let rows = tokens.saturating_mul(self.rows);
        let plain = ProblemFields::plain(op, 1, rows, self.n, self.k, quantization.dtype());
        let fields = ProblemFields { b_layout: Layout::Column, scaling, ..plain };
        Problem::new(fields).map_err(LayersError::Invalid)
    }
}

/// A layer of experts on one GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExpertsLayer {
    /// The experts on this GPU, with shared ones where the server treats them alike.
    pub experts: u64,
    /// Those of all GPUs.
    pub all: u64,
    /// How many of all experts a token goes to.
    pub top_k: u64,
    /// The part of an expert's width that is on this GPU.
    pub n: u64,
    pub hidden: u64,
    pub gated: bool,
    pub quantization: Quantization,
    /// The blocks by which weights are scaled. vLLM makes them smaller where the width is no multiple.
    pub block: Option<[u32; 2]>,
    /// How often one forward pass computes it.
    pub count: u64,
}

impl ExpertsLayer {
    /// The name of the layer's file, on a device that the server calls so.
    pub fn key(&self, device: impl Into<String>, consumer: Consumer) -> FileKey {
        let word = if self.quantization == Quantization::Bf16 { DtypeWord::None } else { DtypeWord::Fp8W8A8 };
        let per_channel = self.quantization == Quantization::Fp8Channel && consumer == Consumer::Sglang;
        FileKey { word, block: self.block, per_channel, ..FileKey::new(self.experts, self.n, device) }
    }

    /// Both launches for a batch of this many tokens: gate-up, then down.
    ///
    /// Of experts on several GPUs, a launch computes what stays on this one: its share of the pairs of token and
    /// expert, by evenly spread tokens.
    pub fn problems(&self, tokens: u64) -> Result<[Problem; 2], LayersError> {
        let share = |pairs: u64| (pairs * self.experts).div_ceil(self.all);
        let top_k = share(self.top_k).clamp(1, self.experts);
        let rows = share(tokens.saturating_mul(self.top_k)).div_ceil(top_k).max(1);
        Ok([self.problem(Stage::GateUp, rows, top_k)?, self.problem(Stage::Down, rows, top_k)?])
    }

    /// The first launch as the server's defaults see it, with all tokens of the batch.
    pub fn nominal(&self, tokens: u64) -> Result<Problem, LayersError> {
        self.problem(Stage::GateUp, tokens, self.top_k.min(self.experts))
    }

    fn problem(&self, stage: Stage, tokens: u64, top_k: u64) -> Result<Problem, LayersError> {
        let (n, k) = match stage {
            Stage::GateUp => (if self.gated { 2 * self.n } else { self.n }, self.hidden),
            Stage::Down => (self.hidden, self.n),
        };
        let narrow = |size: u64| u32::try_from(size).unwrap_or(u32::MAX);
        let groups = Groups {
            count: narrow(self.experts),
            top_k: narrow(top_k),
            stage: Some(stage),
            rows: Rows::Routed,
        };
        let plain = ProblemFields::plain(Op::FusedMoe, 1, tokens, n, k, self.quantization.dtype());
        // One scale or one for each row: the kernel's loop is the same, and rows were measured.
        let scaling = match self.quantization.scaling() {
            Scaling::Tensor => Scaling::Row,
            other => other,
        };
        Problem::new(ProblemFields { scaling, groups: Some(groups), ..plain }).map_err(LayersError::Invalid)
    }
}

/// Divides a size among GPUs.
fn divide(what: &'static str, size: u64, parts: u64, why: &'static str) -> Result<u64, LayersError> {
    if parts > 0 && size.is_multiple_of(parts) {
        Ok(size / parts)
    } else {
        Err(LayersError::NotDivisible { what, size, parts, why })
    }
}

const BY_TENSOR: &str = "tensor parallelism";

impl Architecture {
    /// The multiplications that every token goes through, without routed experts.
    ///
    /// ```
    /// use diode_workloads::layers::Serving;
    /// use diode_workloads::model_config::{Architecture, Quantization};
    ///
    /// let llama = Architecture::from_json(r#"{"hidden_size": 4096, "intermediate_size": 14336,
    ///     "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8}"#)?;
    /// let quantization = Quantization::Bf16;
    /// let serving = Serving { tensor_parallel: 1, expert_parallel: 1, quantization };
    /// let layers = llama.dense_layers(&serving)?;
    /// let sizes: Vec<_> = layers.iter().map(|layer| (layer.n, layer.k)).collect();
    /// assert_eq!(sizes, [(6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn dense_layers(&self, serving: &Serving) -> Result<Vec<DenseLayer>, LayersError> {
        if let Some(why) = &self.unknown {
            return Err(LayersError::Unknown(why.clone()));
        }
        let tp = serving.tensor_parallel;
        let mut layers = Vec::new();
        if !self.listed.is_empty() {
            divide("multiplications of a listed model", 1, tp, "they are listed for one GPU")?;
            layers.extend(self.listed.iter().map(|one| DenseLayer {
                rows: one.rows,
                quantized: false,
                ..DenseLayer::new(&one.name, one.n, one.k, one.count)
            }));
            return Ok(layers);
        }
        if let Some(attention) = &self.attention {
            self.attention_layers(attention, tp, &mut layers)?;
        }
        if let Some(linear) = &self.linear_attention {
            let keys = divide("heads of linear keys", linear.key_heads, tp, BY_TENSOR)? * linear.key_dim;
            let heads = divide("heads of linear values", linear.value_heads, tp, BY_TENSOR)?;
            let values = heads * linear.value_dim;
            layers.extend([
                DenseLayer::new("linear-qkvz", 2 * (keys + values), self.hidden, linear.blocks),
                DenseLayer {
                    quantized: false,
                    ..DenseLayer::new("linear-ba", 2 * heads, self.hidden, linear.blocks)
                },
                DenseLayer::new("linear-o", self.hidden, values, linear.blocks),
            ]);
        }
        if let Some(mlp) = &self.dense {
            self.feed_forward(["gate-up", "down"], mlp, tp, &mut layers)?;
        }
        if let Some(experts) = &self.experts {
            let router = DenseLayer::new("router", experts.count, self.hidden, experts.blocks);
            layers.push(DenseLayer { quantized: false, ..router });
            let shared = experts
                .shared_intermediate
                .or((experts.shared > 0).then_some(experts.shared * experts.intermediate));
            if let Some(intermediate) = shared {
                let mlp = Mlp { blocks: experts.blocks, intermediate, gated: experts.gated };
                self.feed_forward(["shared-gate-up", "shared-down"], &mlp, tp, &mut layers)?;
            }
        }
        if let Some(vocab) = self.vocab {
            let head = DenseLayer::new("head", vocab.div_ceil(tp), self.hidden, 1);
            layers.push(DenseLayer { quantized: false, ..head });
        }
        layers.retain(|layer| layer.count > 0);
        Ok(layers)
    }

    /// Refuses a split that no server runs: of attention heads, or of experts that every GPU has a part of.
    pub fn check_split(&self, serving: &Serving) -> Result<(), LayersError> {
        let tp = serving.tensor_parallel;
        if let Some(experts) = self.experts.as_ref().filter(|_| serving.expert_parallel == 1) {
            divide("width of an expert", experts.intermediate, tp, BY_TENSOR)?;
        }
        self.attention
            .as_ref()
            .map_or(Ok(()), |attention| self.attention_layers(attention, tp, &mut Vec::new()))
    }

    fn attention_layers(
        &self,
        attention: &Attention,
        tp: u64,
        layers: &mut Vec<DenseLayer>,
    ) -> Result<(), LayersError> {
        let hidden = self.hidden;
        match *attention {
            Attention::Heads { blocks, heads, kv_heads, head_dim, gate } => {
                let heads = divide("attention heads", heads, tp, BY_TENSOR)?;
                // Where GPUs outnumber the heads of keys and values, each holds a copy of one.
                let kv_heads = if kv_heads >= tp {
                    divide("heads of keys and values", kv_heads, tp, BY_TENSOR)?
                } else {
                    divide("tensor parallelism", tp, kv_heads, "heads of keys and values")?;
                    1
                };
                let queries = if gate { 2 * heads } else { heads } * head_dim;
                let parts = vec![queries, kv_heads * head_dim, kv_heads * head_dim];
                let together = parts.iter().sum();
                layers.extend([
                    DenseLayer { parts, ..DenseLayer::new("qkv", together, hidden, blocks) },
                    DenseLayer::new("o", hidden, heads * head_dim, blocks),
                ]);
            }
            Attention::Latent { blocks, heads, query_rank, kv_rank, nope_dim, rope_dim, value_dim } => {
                let heads = divide("attention heads", heads, tp, BY_TENSOR)?;
                let queries = heads * (nope_dim + rope_dim);
                match query_rank {
                    Some(rank) => layers.extend([
                        DenseLayer::new("qkv-a", rank + kv_rank + rope_dim, hidden, blocks),
                        DenseLayer::new("q-b", queries, rank, blocks),
                    ]),
                    None => layers.extend([
                        DenseLayer::new("q", queries, hidden, blocks),
                        DenseLayer::new("kv-a", kv_rank + rope_dim, hidden, blocks),
                    ]),
                }
                layers.extend([
                    DenseLayer::new("kv-b", heads * (nope_dim + value_dim), kv_rank, blocks),
                    DenseLayer::new("o", hidden, heads * value_dim, blocks),
                ]);
            }
        }
        Ok(())
    }

    fn feed_forward(
        &self,
        names: [&str; 2],
        mlp: &Mlp,
        tp: u64,
        layers: &mut Vec<DenseLayer>,
    ) -> Result<(), LayersError> {
        let width = divide("intermediate size", mlp.intermediate, tp, BY_TENSOR)?;
        let [first, last] = names;
        let (first, wide) =
            if mlp.gated { (first.to_owned(), 2 * width) } else { (first.replace("gate-", ""), width) };
        let parts = if mlp.gated { vec![width, width] } else { Vec::new() };
        layers.extend([
            DenseLayer { parts, ..DenseLayer::new(&first, wide, self.hidden, mlp.blocks) },
            DenseLayer::new(last, self.hidden, width, mlp.blocks),
        ]);
        Ok(())
    }

    /// The layer of experts as a server runs it.
    ///
    /// ```
    /// use diode_workloads::file_names::Consumer;
    /// use diode_workloads::layers::Serving;
    /// use diode_workloads::catalogue;
    /// use diode_workloads::model_config::Quantization;
    ///
    /// let model = catalogue::find("DeepSeek-V3").unwrap().architecture()?;
    /// let quantization = Quantization::Fp8Block;
    /// let serving = Serving { tensor_parallel: 8, expert_parallel: 1, quantization };
    /// let of = |consumer| model.experts_layer(&serving, consumer).map(|layer| (layer.experts, layer.n));
    /// assert_eq!(of(Consumer::Vllm)?, (256, 256));
    /// assert_eq!(of(Consumer::Sglang)?, (257, 256)); // with the shared one
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn experts_layer(&self, serving: &Serving, consumer: Consumer) -> Result<ExpertsLayer, LayersError> {
        let model = self.experts.as_ref().ok_or(LayersError::NoExperts)?;
        let Serving { tensor_parallel: tp, expert_parallel: ep, quantization } = *serving;
        let spread = |expected: String| LayersError::Spread { given: ep, tensor: tp, expected };
        let parts = match consumer {
            _ if ep == 1 => tp,
            Consumer::Vllm if ep.is_multiple_of(tp) => 1,
            Consumer::Vllm => {
                return Err(spread(format!(
                    "1 or a multiple of {tp}: vLLM spreads experts over all its GPUs"
                )));
            }
            Consumer::Sglang if tp.is_multiple_of(ep) => tp / ep,
            Consumer::Sglang => {
                return Err(spread(format!("a divisor of {tp}: SGLang splits its GPUs among experts")));
            }
        };
        let n = divide("width of an expert", model.intermediate, parts, BY_TENSOR)?;
        let own = divide("experts", model.count, ep, "expert parallelism")?;
        let fused = if consumer == Consumer::Sglang && ep == 1 && self.fuses_shared(model) {
            model.shared.max(1)
        } else {
            0
        };
        let block = match quantization {
            Quantization::Fp8Block => Some(block_of(n, model.hidden, consumer)?),
            _ => None,
        };
        Ok(ExpertsLayer {
            experts: own + fused,
            all: model.count + fused,
            top_k: model.top_k + fused,
            n,
            hidden: model.hidden,
            gated: model.gated,
            quantization,
            block,
            count: model.blocks,
        })
    }

    /// A way of serving the model that looks for this file, on as few GPUs as possible, and the layer that it is for.
    pub fn serving_for(&self, key: &FileKey, consumer: Consumer) -> Option<(Serving, ExpertsLayer)> {
        const GPUS: [u64; 7] = [1, 2, 4, 8, 16, 32, 64];
        let quantization = match (key.word, key.block) {
            (DtypeWord::None, None) => Quantization::Bf16,
            (DtypeWord::Fp8W8A8, Some(_)) => Quantization::Fp8Block,
            // vLLM does not say whether a scale is for a column or for all.
            (DtypeWord::Fp8W8A8, None) if key.per_channel || consumer == Consumer::Vllm => {
                Quantization::Fp8Channel
            }
            (DtypeWord::Fp8W8A8, None) => Quantization::Fp8Tensor,
            _ => return None,
        };
        let spread = |tensor_parallel: u64| {
            let over_all = GPUS
                .iter()
                .map(move |&ep| if consumer == Consumer::Vllm { ep * tensor_parallel } else { ep });
            std::iter::once(1).chain(over_all.filter(|ep| *ep > 1))
        };
        let ways = GPUS.into_iter().flat_map(|tensor_parallel| {
            spread(tensor_parallel).map(move |expert_parallel| Serving {
                tensor_parallel,
                expert_parallel,
                quantization,
            })
        });
        let wanted = FileKey { down: false, ..key.clone() };
        ways.filter_map(|serving| Some((serving, self.experts_layer(&serving, consumer).ok()?)))
            .find(|(_, layer)| layer.key(wanted.device.as_str(), consumer) == wanted)
    }

    /// Whether SGLang computes the shared expert as one of the others.
    fn fuses_shared(&self, experts: &RoutedExperts) -> bool {
        match self.family.as_str() {
            "deepseek_v3" | "deepseek_v32" | "glm_moe_dsa" => experts.count == 256 && experts.shared == 1,
            "glm4_moe" | "glm4_moe_lite" | "minimax_m3" => experts.shared > 0,
            "qwen3_next" => experts.shared_intermediate == Some(experts.intermediate),
            _ => false,
        }
    }
}

/// The blocks of 128×128 weights that share a scale, or what a server makes of them.
fn block_of(n: u64, hidden: u64, consumer: Consumer) -> Result<[u32; 2], LayersError> {
    if !hidden.is_multiple_of(Scaling::BLOCK) {
        let given = format!("a hidden size of {hidden}");
        return Err(LayersError::Blocks { given, expected: "a multiple of 128" });
    }
    // vLLM makes blocks as small as 32, and SGLang none.
    let (sizes, expected): (&[u32], _) = match consumer {
        Consumer::Vllm => (&[128, 64, 32], "a multiple of 32, or else vLLM pads it"),
        Consumer::Sglang => (&[128], "a multiple of 128, or else SGLang does not run it"),
    };
    match sizes.iter().find(|size| n.is_multiple_of(u64::from(**size))) {
        Some(size) => Ok([*size; 2]),
        None => Err(LayersError::Blocks { given: format!("{n} columns of an expert on each GPU"), expected }),
    }
}

#[cfg(test)]
mod tests;
