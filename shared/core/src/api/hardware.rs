use serde::{Deserialize, Serialize};

use crate::hardware::{Facts, Hardware, Vendor};
use crate::ids::HardwareSlug;
use crate::{Comparison, DType, Method, Op};

/// One kind of hardware and what is known about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "SummaryFields")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HardwareSummary {
    #[serde(flatten)]
    pub hardware: Hardware,
    pub problems: u64,
    pub solutions: u64,
    pub timings: u64,
    /// Distinct values in the data, for filters.
    pub ops: Vec<Op>,
    pub dtypes: Vec<DType>,
    pub methods: Vec<Method>,
    /// The highest rate any problem reaches, in TFLOP/s.
    pub best_tflops: Option<f64>,
    /// The method of the four figures that follow: methods are not mixed. Absent without data.
    pub method: Option<Method>,
    /// Median over problems of roofline time / best time.
    pub median_roofline_share: Option<f64>,
    /// Geometric mean over problems of best of Inductor's default configs / best of everything, the library
    /// kernel included.
    pub gain_over_defaults: Option<f64>,
    /// The same with the best Triton config alone.
    pub triton_gain_over_defaults: Option<f64>,
    /// Triton and the library kernel.
    #[serde(default)]
    pub comparison: Comparison,
    /// When the newest upload arrived, as RFC 3339.
    pub updated_at: Option<String>,
    /// Models trained for this hardware.
    pub models: u64,
    /// Whether its facts are known: from the catalogue, or by an administrator. If not, they are what
    /// the first upload said, and no time is refused for them.
    #[serde(default)]
    pub confirmed: bool,
    /// Uploads that described it otherwise.
    #[serde(default)]
    pub conflicting_uploads: u64,
}

/// A [`HardwareSummary`] as it is read. Reading with `flatten` takes more code, which browsers would download.
#[derive(Deserialize)]
struct SummaryFields {
    slug: HardwareSlug,
    name: String,
    vendor: Vendor,
    #[serde(default)]
    facts: Option<Facts>,
    problems: u64,
    solutions: u64,
    timings: u64,
    ops: Vec<Op>,
    dtypes: Vec<DType>,
    methods: Vec<Method>,
    best_tflops: Option<f64>,
    method: Option<Method>,
    median_roofline_share: Option<f64>,
    gain_over_defaults: Option<f64>,
    triton_gain_over_defaults: Option<f64>,
    #[serde(default)]
    comparison: Comparison,
    updated_at: Option<String>,
    models: u64,
    #[serde(default)]
    confirmed: bool,
    #[serde(default)]
    conflicting_uploads: u64,
}

impl From<SummaryFields> for HardwareSummary {
    fn from(read: SummaryFields) -> Self {
        let SummaryFields { slug, name, vendor, facts, .. } = read;
        Self {
            hardware: Hardware { slug, name, vendor, facts },
            problems: read.problems,
            solutions: read.solutions,
            timings: read.timings,
            ops: read.ops,
            dtypes: read.dtypes,
            methods: read.methods,
            best_tflops: read.best_tflops,
            method: read.method,
            median_roofline_share: read.median_roofline_share,
            gain_over_defaults: read.gain_over_defaults,
            triton_gain_over_defaults: read.triton_gain_over_defaults,
            comparison: read.comparison,
            updated_at: read.updated_at,
            models: read.models,
            confirmed: read.confirmed,
            conflicting_uploads: read.conflicting_uploads,
        }
    }
}
