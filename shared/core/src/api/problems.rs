use serde::{Deserialize, Serialize};

use super::{KernelResult, LibraryVersion, Standing};
use crate::hardware::Hardware;
use crate::ids::{AccountName, HardwareSlug, ProblemId, UploadId};
use crate::{Config, FailureReason, Method, Problem};

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
    /// As in a leaderboard's row.
    pub triton_over_library: Option<f64>,
    /// Other Triton configs that are as fast as the best to 1 %.
    #[serde(default)]
    pub triton_ties: u64,
    pub solutions: u64,
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
