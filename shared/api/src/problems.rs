use diode_core::hardware::Hardware;
use diode_core::ids::{AccountName, HardwareSlug, ModelId, ProblemId, UploadId};
use diode_core::{
    Config, DType, FailureReason, Field, Groups, Invalid, Layout, Method, Op, Problem, ProblemFields,
    Scaling, Stage,
};
use serde::{Deserialize, Deserializer, Serialize};

use crate::query::{from_text, whole_number};
use crate::{KernelResult, LibraryVersion, Standing};

/// How many points an overview chart has at most. More would not show, since a chart has few pixels.
pub const MAX_POINTS: u32 = 3_000;

/// A problem as a point of an overview chart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProblemPoint {
    pub problem_id: ProblemId,
    pub problem: Problem,
    pub method: Method,
    /// `4096×4096×4096`
    pub dims: String,
    /// Operations per byte that must move.
    pub intensity: f64,
    /// Rate, roofline share and time of the best config of all, the library kernel included.
    pub tflops: f64,
    pub roofline_share: Option<f64>,
    pub best_us: f64,
    /// Time and roofline share of the best Triton config.
    pub triton_us: Option<f64>,
    pub triton_roofline_share: Option<f64>,
    /// Whether that config rounds float32 to TF32.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub triton_rounds: bool,
    /// The same of the library kernel.
    pub library_us: Option<f64>,
    pub library_roofline_share: Option<f64>,
    /// As in a leaderboard's row.
    pub triton_over_library: Option<f64>,
}

/// One way to look at a problem: some hardware, some method.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProblemView {
    pub hardware: HardwareSlug,
    pub method: Method,
}

/// Everything known about a problem on one hardware by one method.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProblemDetail {
    pub problem_id: ProblemId,
    pub problem: Problem,
    pub hardware: Hardware,
    pub method: Method,
    /// The views there are, this one among them; 500 at most.
    pub views: Vec<ProblemView>,
    pub roofline_us: Option<f64>,
    /// The best Triton config: the fastest of all but the library kernel.
    pub triton: Option<KernelResult>,
    /// The library kernel.
    pub library: Option<KernelResult>,
    /// The version of the library, if all uploads with the problem that name one name the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library_version: Option<LibraryVersion>,
    /// As in a leaderboard's row.
    pub triton_over_library: Option<f64>,
    /// Other Triton configs that are as fast as the best to 1 %.
    #[serde(default)]
    pub triton_ties: u64,
    pub solutions: u64,
    /// What files of vLLM and SGLang hold for the problem, as far as it was timed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<PublishedTime>,
    /// The timed configs, fastest first.
    pub configs: Vec<ConfigResult>,
    /// Timed configs beside those listed, which are faster.
    #[serde(default)]
    pub more_configs: u64,
    pub failures: Vec<FailedConfig>,
    /// Failed configs beside those listed.
    #[serde(default)]
    pub more_failures: u64,
}

/// The time of the config that a release's file holds for a problem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PublishedTime {
    /// Such as `vLLM 0.33.0`.
    pub release: String,
    pub file: String,
    /// The batch size in the file that is nearest to the problem's.
    pub batch_size: u64,
    pub config: Config,
    pub us: f64,
    /// The time of what the release runs without the file, if it was timed.
    pub default_us: Option<f64>,
}

/// The consensus time of one config: the median over contributors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ConfigResult {
    pub config: Config,
    pub us: f64,
    /// Timings behind the consensus.
    pub timings: u32,
    /// Contributors that timed it.
    #[serde(default)]
    pub contributors: u32,
    /// Interquartile range of the repeats / time: the median over the solutions that know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<f64>,
    /// How often it was run: the sum over the solutions that know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<u64>,
}

/// Where the times of a view come from, newest first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProblemSources {
    /// 200 at most.
    pub sources: Vec<SolutionSource>,
    /// Older ones, which are not listed.
    pub more: u64,
}

/// Who measured a problem, when and with what. What the file does not say is absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SolutionSource {
    /// The first upload that brought it.
    pub upload: UploadId,
    /// Absent if it was sent without an account.
    pub contributor: Option<AccountName>,
    pub standing: Standing,
    /// When the upload was stored, as RFC 3339.
    pub received_at: String,
    /// When the collection began, as RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collected_at: Option<String>,
    /// The program that measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<LibraryVersion>,
    pub timings: u64,
    pub failures: u64,
    /// The shortest time of all, the library kernel's included; absent if every config failed.
    pub best_us: Option<f64>,
}

/// A config that was tried and has no time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FailedConfig {
    pub config: Config,
    pub reason: FailureReason,
}

/// A shape to find measured problems like it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct NearestQuery {
    /// `mm` unless given.
    #[serde(deserialize_with = "from_text")]
    pub op: Option<Op>,
    /// 1 unless given.
    #[serde(deserialize_with = "size")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 2_147_483_648.0))]
    pub b: Option<u64>,
    #[serde(deserialize_with = "size")]
    #[cfg_attr(feature = "openapi", param(required = true, minimum = 1, maximum = 2_147_483_648.0))]
    pub m: Option<u64>,
    #[serde(deserialize_with = "size")]
    #[cfg_attr(feature = "openapi", param(required = true, minimum = 1, maximum = 2_147_483_648.0))]
    pub n: Option<u64>,
    #[serde(deserialize_with = "size")]
    #[cfg_attr(feature = "openapi", param(required = true, minimum = 1, maximum = 2_147_483_648.0))]
    pub k: Option<u64>,
    /// `bfloat16` unless given.
    #[serde(deserialize_with = "from_text")]
    pub dtype: Option<DType>,
    /// `row` unless given.
    #[serde(deserialize_with = "from_text")]
    pub a_layout: Option<Layout>,
    /// `row` unless given; `column` is what `nn.Linear` gives.
    #[serde(deserialize_with = "from_text")]
    pub b_layout: Option<Layout>,
    /// `none` unless given.
    #[serde(deserialize_with = "from_text")]
    pub scaling: Option<Scaling>,
    /// The number of groups of weights.
    #[serde(deserialize_with = "groups")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 65_536))]
    pub groups: Option<u32>,
    /// The groups that each token goes to; 1 unless given.
    #[serde(deserialize_with = "groups")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 65_536))]
    pub top_k: Option<u32>,
    #[serde(deserialize_with = "from_text")]
    pub stage: Option<Stage>,
    /// The method that the hardware's figures are of unless given.
    #[serde(deserialize_with = "from_text")]
    pub method: Option<Method>,
    /// 1 to 20; 5 unless given.
    #[serde(deserialize_with = "limit")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 20))]
    pub limit: Option<u32>,
}

fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    whole_number(deserializer, 1..=Problem::MAX_DIM)
}

fn groups<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    whole_number(deserializer, 1..=Groups::MAX)
}

fn limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    /// Every problem costs the database a look-up.
    const MAX: u32 = 20;
    whole_number(deserializer, 1..=MAX)
}

impl NearestQuery {
    /// The problem with these sizes and types.
    pub fn problem(&self) -> Result<Problem, Invalid> {
        let given = |field: Field, size: Option<u64>| {
            size.ok_or_else(|| {
                Invalid::new(field, "nothing", format!("a size from 1 to {}", Problem::MAX_DIM))
            })
        };
        let (m, n, k) = (given(Field::M, self.m)?, given(Field::N, self.n)?, given(Field::K, self.k)?);
        let (op, dtype) = (self.op.unwrap_or(Op::Mm), self.dtype.unwrap_or(DType::BFloat16));
        let plain = ProblemFields::plain(op, self.b.unwrap_or(1), m, n, k, dtype);
        Problem::new(ProblemFields {
            a_layout: self.a_layout.unwrap_or(plain.a_layout),
            b_layout: self.b_layout.unwrap_or(plain.b_layout),
            scaling: self.scaling.unwrap_or(plain.scaling),
            groups: Groups::from_parts(self.groups, self.top_k, self.stage, None)?,
            ..plain
        })
    }
}

/// A measured problem like the one that was asked about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NearestProblem {
    pub problem_id: ProblemId,
    pub problem: Problem,
    pub method: Method,
    /// How differently the two are expected to behave: 0 for the same, 1 for one size doubled.
    pub distance: f64,
    /// The best Triton config.
    pub triton: Option<KernelResult>,
    /// The library kernel.
    pub library: Option<KernelResult>,
    /// As in a leaderboard's row.
    pub triton_over_library: Option<f64>,
}

/// The most problems in one request. For each, the server ranks a space and reads timings.
pub const MAX_PICKED: usize = 50;

/// What the best model of a hardware picks for some problems, beside what was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Picks {
    /// Absent if there is no model for the hardware.
    pub model: Option<ModelId>,
    /// Those problems that were measured and that the model can rank, in the order asked for.
    pub items: Vec<Pick>,
}

/// The first pick for one problem. The model may have been trained on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Pick {
    pub problem_id: ProblemId,
    pub config: Config,
    pub predicted_us: f64,
    /// The measured time of the pick, if it was timed.
    pub us: Option<f64>,
    /// Best time of all configs, the library's among them / measured time of the pick. Configs that round to TF32 are
    /// compared with one another only.
    pub share_of_best: Option<f64>,
}
