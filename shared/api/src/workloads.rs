//! Models that are served: how much of each has been measured, and the kernel configs of each layer.

use diode_core::Config;
use diode_core::ids::{HardwareSlug, ModelId, ProblemId};
use serde::{Deserialize, Serialize};

/// How much of every model of the catalogue has been measured, and can be predicted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Workloads {
    pub hardware: Vec<WorkloadHardware>,
    pub models: Vec<WorkloadModel>,
}

/// A hardware that models are served on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkloadHardware {
    pub slug: HardwareSlug,
    pub name: String,
    /// The published model that predicts times; absent if there is none.
    pub model: Option<ModelId>,
}

/// A model of the catalogue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkloadModel {
    pub name: String,
    /// Such as `experts`, `vision` or `speech`.
    pub tags: Vec<String>,
    /// By tensor parallel size and form of the weights. Sizes that do not divide the model are left out.
    pub served: Vec<WorkloadWay>,
}

/// A way of serving a model, by vLLM and without expert parallelism.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkloadWay {
    pub tensor_parallel: u64,
    /// `bf16`, `fp8-tensor`, `fp8-channel` or `fp8-block`
    pub quantization: String,
    /// The multiplications of one GPU at the usual batch sizes.
    pub problems: u64,
    /// One for each hardware of the list, in its order.
    pub on: Vec<WorkloadCount>,
}

/// How many problems are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkloadCount {
    pub measured: u64,
    /// Those that were not measured, and that the published model predicts.
    pub predicted: u64,
}

/// The kernel configs of one way of serving a model, and how much of it has been measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Workload {
    #[serde(flatten)]
    pub manifest: WorkloadManifest,
    pub problems: u64,
    pub measured: u64,
    /// Problems that wait for agents, or that agents measure.
    pub waiting: u64,
}

/// The kernel configs of one way of serving a model, each with where it comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkloadManifest {
    pub model: String,
    pub hardware: HardwareSlug,
    pub tensor_parallel: u64,
    pub expert_parallel: u64,
    /// `bf16`, `fp8-tensor`, `fp8-channel` or `fp8-block`
    pub quantization: String,
    /// `vllm`, `sglang` or `inductor`
    pub consumer: String,
    /// Changes with the timings of the hardware. Empty if there are none.
    pub data: String,
    /// The model that predicts what was not measured: a digest of its file.
    pub predicted_by: Option<ModelId>,
    /// The release whose files are compared, such as `vLLM 0.33.0`; absent if the server has none of the consumer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    pub layers: Vec<WorkloadLayer>,
    /// The files from which the consumer reads configs.
    pub files: Vec<String>,
    /// The environment variable that names the folder of the files, if there is one.
    pub variable: Option<String>,
    /// Reasons to doubt predictions, and why there are none.
    pub notes: Vec<String>,
}

/// The configs of one layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkloadLayer {
    /// `qkv`, `o`, `gate-up`, `down`, `experts`, …
    pub name: String,
    /// Columns of the weights on one GPU; of experts, the width of one.
    pub n: u64,
    pub k: u64,
    /// How often one forward pass computes it.
    pub count: u64,
    /// Of [`WorkloadManifest::files`], those with its configs.
    pub files: Vec<String>,
    pub batches: Vec<WorkloadBatch>,
}

/// The config of one batch size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkloadBatch {
    pub batch_size: u64,
    /// Experts have two: gate-up and down.
    pub problems: Vec<ProblemId>,
    /// How many of the problems have been measured.
    pub measured: u64,
    /// The server's default where it reads files, the library elsewhere.
    pub untuned: Option<WorkloadTime>,
    pub pick: Option<WorkloadTime>,
    /// What the release's file holds, if both it and what runs untuned were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<WorkloadTime>,
    /// Whether the pick is what runs untuned.
    pub keeps_untuned: bool,
    /// Untuned time / the pick's, if both are measured or both predicted.
    pub gain: Option<f64>,
}

/// A config and its time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkloadTime {
    pub config: Config,
    /// The second multiplication's config, for servers that read one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<Config>,
    /// The time of all problems together.
    pub us: f64,
    /// Who measured it; absent if it is predicted.
    pub measured: Option<WorkloadBacking>,
}

/// Who measured a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkloadBacking {
    pub contributors: u64,
    /// How many of them confirm the time.
    pub confirmed_by: u64,
}

/// Asks for all problems of a way of serving that have not been measured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WantedWorkload {
    /// 1 unless given
    pub tensor_parallel: Option<u64>,
    /// 1 unless given
    pub expert_parallel: Option<u64>,
    /// The model's own unless given: `bf16`, `fp8-tensor`, `fp8-channel` or `fp8-block`
    pub quantization: Option<String>,
    /// `vllm` unless given; or `sglang` or `inductor`
    pub consumer: Option<String>,
}

/// What became of a request for the problems of a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AskedWorkload {
    pub problems: u64,
    /// Those that were measured before.
    pub measured: u64,
    /// Those that agents will measure.
    pub asked: u64,
    /// Those for which there are no kernels, or too little memory.
    pub unable: u64,
}
