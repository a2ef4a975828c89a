//! How much of the plan has been measured.

use diode_core::ids::HardwareSlug;
use diode_core::{DType, Op, Problem, Scaling};
use serde::{Deserialize, Serialize};

use crate::Purpose;
use crate::query::from_text;

/// How much of what the plan names has been measured on a hardware.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Coverage {
    pub hardware: HardwareSlug,
    /// The kinds of problems that the plan tells apart.
    pub kinds: u64,
    /// Those of which at least one problem has been measured.
    pub covered: u64,
    pub problems: u64,
    /// Of the problems, those that are for judging models.
    pub kept: u64,
    /// Of the problems, those that a second contributor has confirmed.
    pub confirmed: u64,
    /// Problems that wait to be measured.
    pub waiting: u64,
    /// Problems that agents have leased.
    pub leased: u64,
    pub parts: Vec<CoveragePart>,
}

/// The same of one operator, type and scaling.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CoveragePart {
    pub op: Op,
    pub dtype: DType,
    pub scaling: Scaling,
    pub kinds: u64,
    pub covered: u64,
    pub problems: u64,
}

/// Which part of the plan a map shows. Whatever is not given is that of the first part that is as asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct CoverageMapQuery {
    #[serde(deserialize_with = "from_text")]
    pub op: Option<Op>,
    #[serde(deserialize_with = "from_text")]
    pub dtype: Option<DType>,
    #[serde(deserialize_with = "from_text")]
    pub scaling: Option<Scaling>,
}

/// How much of the plan has been measured for one operator, type and scaling, by M and N.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CoverageMap {
    pub hardware: HardwareSlug,
    pub op: Op,
    pub dtype: DType,
    pub scaling: Scaling,
    pub kinds: u64,
    pub covered: u64,
    /// In the order of M, then of N. Empty for types that the plan does not ask for.
    pub cells: Vec<CoverageCell>,
    /// What agents will be asked for first, of every operator, type and scaling.
    pub next: Vec<PlannedProblem>,
}

/// The kinds whose M and N lie in two ranges, whatever their K, layout and alignment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CoverageCell {
    pub m: SizeRange,
    pub n: SizeRange,
    pub kinds: u64,
    /// Those of which at least one problem has been measured.
    pub covered: u64,
    /// Problems measured.
    pub problems: u64,
}

/// Sizes that count as alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SizeRange {
    pub least: u64,
    pub most: u64,
}

/// A problem that is to be measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PlannedProblem {
    pub problem: Problem,
    pub purpose: Purpose,
    /// The purpose in words.
    pub why: String,
    /// How long it is expected to take.
    pub seconds: f64,
}
