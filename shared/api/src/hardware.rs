use diode_core::hardware::{Facts, Hardware, Vendor};
use diode_core::ids::{AccountName, HardwareSlug, UploadId};
use diode_core::{Comparison, DType, Invalid, Method, Op, Scaling};
use serde::{Deserialize, Serialize};

use crate::{Agent, Receipt};

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
    #[serde(default)]
    pub scalings: Vec<Scaling>,
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
    /// the first upload said, and each upload's times are judged by what it says itself.
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
    #[serde(default)]
    scalings: Vec<Scaling>,
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
            scalings: read.scalings,
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

/// What has happened lately, and what happens now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Activity {
    /// The newest uploads that count, newest first.
    pub uploads: Vec<NewestUpload>,
    /// Agents that have asked for something within three minutes.
    pub working: u64,
    /// Some of them, those seen last first.
    pub agents: Vec<WorkingAgent>,
}

/// What a line has room for of an upload; `GET /uploads/{id}` has the rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewestUpload {
    pub id: UploadId,
    pub received_at: String,
    pub contributor: Option<AccountName>,
    pub hardware: Vec<HardwareName>,
    pub problems: u64,
    pub timings: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HardwareName {
    pub slug: HardwareSlug,
    pub name: String,
}

/// What a line has room for of an agent; `GET /agents/{id}` has the rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WorkingAgent {
    pub name: String,
    pub hardware: HardwareSlug,
    pub simulated: bool,
    pub measured: u64,
}

impl From<Receipt> for NewestUpload {
    fn from(receipt: Receipt) -> Self {
        let problems = receipt.hardware.iter().map(|one| one.problems).sum();
        let timings = receipt.hardware.iter().map(|one| one.timings).sum();
        let mut hardware: Vec<HardwareName> =
            receipt.hardware.into_iter().map(|one| HardwareName { slug: one.slug, name: one.name }).collect();
        // A file may hold several datasets of the same hardware.
        hardware.dedup();
        let Receipt { id, received_at, contributor, .. } = receipt;
        Self { id, received_at, contributor, hardware, problems, timings }
    }
}

impl From<Agent> for WorkingAgent {
    fn from(agent: Agent) -> Self {
        let Agent { name, hardware, simulated, measured, .. } = agent;
        Self { name, hardware, simulated, measured }
    }
}

/// What one contributor has measured on a hardware, of what counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HardwareContributor {
    /// Absent for all that was sent without an account, which is one contributor.
    pub name: Option<AccountName>,
    pub problems: u64,
    pub solutions: u64,
    pub timings: u64,
    /// Its uploads with a solution on this hardware.
    pub uploads: u64,
    /// When the newest of them arrived, as RFC 3339.
    pub newest_at: String,
    /// The mean over those uploads of the logarithm of their times / those of the other contributors, weighted
    /// by the problems compared. Absent as long as too few others measured the same.
    pub log_ratio: Option<f64>,
    /// The problems behind `log_ratio`.
    pub compared_problems: u64,
}

/// A method on one hardware: `nvidia-h200@median-cold-event`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MethodOn {
    pub hardware: HardwareSlug,
    pub method: Method,
}

impl std::fmt::Display for MethodOn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", self.hardware, self.method)
    }
}

impl std::str::FromStr for MethodOn {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let expected = "HARDWARE@METHOD, such as nvidia-h200@median-cold-event";
        let (hardware, method) = text
            .split_once('@')
            .ok_or_else(|| Invalid::new("method", format_args!("`{text:.80}`"), expected))?;
        Ok(Self { hardware: hardware.parse()?, method: method.parse()? })
    }
}

#[cfg(test)]
mod method_on_tests {
    use super::*;

    #[test]
    fn a_method_on_a_hardware_is_read_as_it_is_written() {
        let text = "nvidia-h200@median-cold-event";
        let one: MethodOn = text.parse().unwrap();
        assert_eq!((one.method, one.to_string().as_str()), (Method::MEDIAN_COLD_EVENT, text));
        let fault = "nvidia-h200".parse::<MethodOn>().unwrap_err().to_string();
        assert!(fault.contains("nvidia-h200") && fault.contains("HARDWARE@METHOD"), "{fault}");
        assert!("nvidia-h200@quickly".parse::<MethodOn>().is_err());
    }
}
