//! The multiplications of a model, as its server runs them on one GPU.

use diode_core::{Groups, Layout, Op, Problem, ProblemFields, Rows, Scaling, Stage};
use serde::Serialize;

use crate::file_names::{Consumer, DtypeWord, FileKey};
use crate::model_config::{Architecture, Attention, Mlp, Quantization, RoutedExperts};

/// How a model is spread over GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
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
mod tests {
    use super::*;
    use crate::catalogue::find;

    fn serving(tensor_parallel: u64, expert_parallel: u64, quantization: Quantization) -> Serving {
        Serving { tensor_parallel, expert_parallel, quantization }
    }

    fn name(model: &str, serving: Serving, consumer: Consumer) -> Result<String, String> {
        let model = find(model).unwrap().architecture().unwrap();
        let layer = model.experts_layer(&serving, consumer).map_err(|error| error.to_string())?;
        Ok(layer.key("D", consumer).name(consumer))
    }

    /// Names that vLLM and SGLang ship a file under, or are known to look for.
    #[test]
    fn files_have_the_names_that_servers_look_for() {
        use Consumer::{Sglang, Vllm};
        use Quantization::{Bf16, Fp8Block, Fp8Channel};
        for (model, split, consumer, expected) in [
            ("Mixtral-8x7B", serving(2, 1, Bf16), Vllm, "E=8,N=7168,device_name=D.json"),
            ("Mixtral-8x7B", serving(4, 1, Bf16), Sglang, "E=8,N=3584,device_name=D.json"),
            (
                "Qwen3-235B-A22B",
                serving(4, 1, Fp8Block),
                Vllm,
                "E=128,N=384,device_name=D,dtype=fp8_w8a8,block_shape=[128,128].json",
            ),
            (
                "Qwen3-235B-A22B",
                serving(4, 1, Fp8Block),
                Sglang,
                "E=128,N=384,device_name=D,dtype=fp8_w8a8,block_shape=[128, 128].json",
            ),
            (
                "Qwen3-30B-A3B",
                serving(4, 1, Fp8Block),
                Vllm,
                "E=128,N=192,device_name=D,dtype=fp8_w8a8,block_shape=[64,64].json",
            ),
            (
                "Qwen3-30B-A3B",
                serving(8, 1, Fp8Block),
                Vllm,
                "E=128,N=96,device_name=D,dtype=fp8_w8a8,block_shape=[32,32].json",
            ),
            ("Qwen3-30B-A3B", serving(4, 4, Bf16), Sglang, "E=32,N=768,device_name=D.json"),
            (
                "DeepSeek-V3",
                serving(8, 1, Fp8Block),
                Sglang,
                "E=257,N=256,device_name=D,dtype=fp8_w8a8,block_shape=[128, 128].json",
            ),
            (
                "DeepSeek-R1",
                serving(8, 8, Fp8Block),
                Vllm,
                "E=32,N=2048,device_name=D,dtype=fp8_w8a8,block_shape=[128,128].json",
            ),
            (
                "Qwen3-Coder-480B-A35B",
                serving(8, 8, Fp8Block),
                Vllm,
                "E=20,N=2560,device_name=D,dtype=fp8_w8a8,block_shape=[128,128].json",
            ),
            ("GLM-4.6", serving(8, 1, Fp8Channel), Vllm, "E=160,N=192,device_name=D,dtype=fp8_w8a8.json"),
            (
                "GLM-4.6",
                serving(8, 1, Fp8Channel),
                Sglang,
                "E=161,N=192,device_name=D,dtype=fp8_w8a8,per_channel_quant=True.json",
            ),
            ("Qwen3-Next-80B-A3B", serving(2, 1, Bf16), Vllm, "E=512,N=256,device_name=D.json"),
            ("Qwen3-Next-80B-A3B", serving(2, 1, Bf16), Sglang, "E=513,N=256,device_name=D.json"),
            (
                "Llama-4-Maverick-17B-128E",
                serving(8, 1, Fp8Channel),
                Vllm,
                "E=128,N=1024,device_name=D,dtype=fp8_w8a8.json",
            ),
            (
                "MiniMax-M2",
                serving(4, 1, Fp8Block),
                Vllm,
                "E=256,N=384,device_name=D,dtype=fp8_w8a8,block_shape=[128,128].json",
            ),
            ("Phi-3.5-MoE", serving(1, 1, Bf16), Vllm, "E=16,N=6400,device_name=D.json"),
            ("gpt-oss-120b", serving(1, 1, Bf16), Vllm, "E=128,N=2880,device_name=D.json"),
            (
                "Kimi-K2",
                serving(8, 1, Fp8Block),
                Sglang,
                "E=384,N=256,device_name=D,dtype=fp8_w8a8,block_shape=[128, 128].json",
            ),
        ] {
            assert_eq!(name(model, split, consumer).unwrap(), expected, "{model}");
        }
    }

    #[test]
    fn what_does_not_divide_is_refused() {
        use Consumer::{Sglang, Vllm};
        use Quantization::{Bf16, Fp8Block};
        for (model, split, consumer, words) in [
            (
                "Mixtral-8x7B",
                serving(3, 1, Bf16),
                Vllm,
                "width of an expert: got 14336, expected a multiple of 3",
            ),
            ("Mixtral-8x7B", serving(1, 3, Bf16), Vllm, "experts: got 8, expected a multiple of 3"),
            (
                "Mixtral-8x7B",
                serving(8, 4, Bf16),
                Vllm,
                "expert parallelism: got 4 with tensor parallelism 8",
            ),
            (
                "Mixtral-8x7B",
                serving(2, 4, Bf16),
                Sglang,
                "expert parallelism: got 4 with tensor parallelism 2",
            ),
            ("Qwen3-30B-A3B", serving(4, 1, Fp8Block), Sglang, "block scales: got 192 columns"),
            ("GLM-4.5-Air", serving(8, 1, Fp8Block), Vllm, "block scales: got 176 columns"),
            ("Llama-3.1-8B", serving(1, 1, Bf16), Vllm, "the model has no experts"),
        ] {
            let said = name(model, split, consumer).unwrap_err();
            assert!(said.starts_with(words), "{model}: {said}");
        }
        let llama = find("Llama-3.1-8B").unwrap().architecture().unwrap();
        let said = llama.dense_layers(&serving(3, 1, Bf16)).unwrap_err().to_string();
        assert_eq!(said, "attention heads: got 32, expected a multiple of 3 (tensor parallelism)");
    }

    #[test]
    fn deepseek_v3_has_the_layers_that_files_are_tuned_for() {
        let model = find("DeepSeek-V3").unwrap().architecture().unwrap();
        let layers = model.dense_layers(&serving(8, 1, Quantization::Fp8Block)).unwrap();
        let listed: Vec<(&str, u64, u64, u64)> =
            layers.iter().map(|layer| (layer.name.as_str(), layer.n, layer.k, layer.count)).collect();
        let expected = [
            ("qkv-a", 2112, 7168, 61),
            ("q-b", 3072, 1536, 61),
            ("kv-b", 4096, 512, 61),
            ("o", 7168, 2048, 61),
            ("gate-up", 4608, 7168, 3),
            ("down", 7168, 2304, 3),
            ("router", 256, 7168, 58),
            ("shared-gate-up", 512, 7168, 58),
            ("shared-down", 7168, 256, 58),
            ("head", 16_160, 7168, 1),
        ];
        assert_eq!(listed, expected);
        let scaled = layers[0].problem(64, Quantization::Fp8Block).unwrap();
        assert!(scaled.canonical().starts_with("scaled_mm;b=1;m=64;n=2112;k=7168;in=float8_e4m3fn"));
        let router = layers[6].problem(64, Quantization::Fp8Block).unwrap();
        assert!(router.canonical().starts_with("mm;b=1;m=64;n=256;k=7168;in=bfloat16"));
    }

    /// Copies of a head of keys and values, and gated and linear attention.
    #[test]
    fn attention_of_other_forms_is_split_as_servers_do() {
        let of = |model: &str, tp: u64| {
            let model = find(model).unwrap().architecture().unwrap();
            let layers = model.dense_layers(&serving(tp, 1, Quantization::Bf16)).unwrap();
            layers.into_iter().map(|layer| (layer.name, layer.n, layer.k, layer.count)).collect::<Vec<_>>()
        };
        let qwen = of("Qwen3-235B-A22B", 8);
        assert_eq!(qwen[0], ("qkv".to_owned(), (8 + 2) * 128, 4096, 94));
        let next = of("Qwen3-Next-80B-A3B", 1);
        assert_eq!(next[0], ("qkv".to_owned(), (32 + 4) * 256, 2048, 12));
        assert_eq!(next[2], ("linear-qkvz".to_owned(), 12_288, 2048, 36));
        assert_eq!(of("DeepSeek-V2-Lite", 1)[0], ("q".to_owned(), 3072, 2048, 27));
        assert_eq!(of("bert-base", 1)[2], ("up".to_owned(), 3072, 768, 12));
    }

    #[test]
    fn a_files_name_tells_how_its_model_is_served() {
        let ways = |model: &str, name: &str, consumer| {
            let model = find(model).unwrap().architecture().unwrap();
            let (serving, layer) = model.serving_for(&FileKey::parse(name).unwrap(), consumer)?;
            Some((serving.tensor_parallel, serving.expert_parallel, layer.hidden))
        };
        use Consumer::{Sglang, Vllm};
        let block = "device_name=D,dtype=fp8_w8a8,block_shape=[128,128].json";
        let named = |sizes: &str| format!("{sizes},{block}");
        assert_eq!(ways("DeepSeek-V3", &named("E=256,N=256"), Vllm), Some((8, 1, 7168)));
        assert_eq!(ways("DeepSeek-V3", &named("E=256,N=256"), Sglang), None);
        assert_eq!(ways("DeepSeek-V3", &named("E=257,N=256"), Sglang), Some((8, 1, 7168)));
        assert_eq!(ways("DeepSeek-V3", &named("E=32,N=2048"), Vllm), Some((1, 8, 7168)));
        let refined = "E=128,N=192,device_name=D,dtype=fp8_w8a8,block_shape=[64,64].json";
        assert_eq!(ways("Qwen3-30B-A3B", refined, Vllm), Some((4, 1, 2048)));
        assert_eq!(ways("Qwen3-30B-A3B", "E=128,N=768,device_name=D,dtype=int8_w8a16.json", Vllm), None);
    }

    #[test]
    fn weights_that_a_server_keeps_together_have_parts() {
        let llama = find("Llama-3.1-8B").unwrap().architecture().unwrap();
        let layers = llama.dense_layers(&serving(1, 1, Quantization::Bf16)).unwrap();
        let apart: Vec<u64> = layers.iter().flat_map(DenseLayer::apart).map(|layer| layer.n).collect();
        assert_eq!(apart, [6144, 4096, 1024, 4096, 28_672, 14_336, 4096, 128_256]);
    }

    #[test]
    fn a_launch_of_spread_experts_computes_its_share() {
        let model = find("DeepSeek-V3").unwrap().architecture().unwrap();
        let spread = serving(8, 8, Quantization::Fp8Block);
        let layer = model.experts_layer(&spread, Consumer::Vllm).unwrap();
        let [up, down] = layer.problems(64).unwrap();
        assert_eq!(
            (up.m, up.n, up.k, up.groups.unwrap().count, up.groups.unwrap().top_k),
            (64, 4096, 7168, 32, 1)
        );
        assert_eq!((down.n, down.k), (7168, 2048));
        assert_eq!(layer.nominal(64).unwrap().groups.unwrap().top_k, 8);
        // Ten of 512 experts on 16 GPUs: 0.625 pairs of each token.
        let next = find("Qwen3-Next-80B-A3B").unwrap().architecture().unwrap();
        let layer = next.experts_layer(&serving(1, 16, Quantization::Bf16), Consumer::Vllm).unwrap();
        assert_eq!(layer.problems(64).unwrap()[0].m, 40);
        assert_eq!(layer.problems(1).unwrap()[0].m, 1);
        let whole = model.experts_layer(&serving(8, 1, Quantization::Fp8Block), Consumer::Vllm).unwrap();
        assert_eq!(whole.problems(64).unwrap()[0].m, 64);
    }
}
