//! How much of the plan has been measured, and the problems that people want measured.

use diode_core::ids::{HardwareSlug, ProblemId};
use diode_core::named_enum::named_enum;
use diode_core::{DType, Invalid, Op, Problem, Scaling};
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

/// Problems that somebody wants measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Wanted {
    pub problems: Vec<Problem>,
}

impl Wanted {
    pub const MAX: usize = 100;

    pub fn check(&self) -> Result<(), Invalid> {
        if (1..=Self::MAX).contains(&self.problems.len()) {
            return Ok(());
        }
        Err(Invalid::new("problems", self.problems.len(), format!("1 to {} at a time", Self::MAX)))
    }
}

named_enum! {
    /// How near a problem is to being measured.
    MeasuringState("measuring state") {
        /// Some of its timings count.
        Measured = "measured",
        /// An agent has a lease on it.
        Leased = "leased",
        /// It waits for an agent.
        Waiting = "waiting",
        /// No device of the hardware can measure it.
        Refused = "refused",
        /// Neither people nor the plan ask for it.
        Unasked = "unasked",
    }
}

/// Which problems are asked about.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct MeasuringQuery {
    /// The ids of 1 to 100 problems, with commas between them.
    #[serde(deserialize_with = "from_text")]
    #[cfg_attr(feature = "openapi", param(value_type = String, required = true))]
    pub problems: Option<AskedProblems>,
}

impl MeasuringQuery {
    /// The problems. At least one must be given.
    pub fn problems(self) -> Result<Vec<ProblemId>, Invalid> {
        self.problems
            .map(|asked| asked.0)
            .ok_or_else(|| Invalid::new("problems", "none", AskedProblems::EXPECTED))
    }
}

/// Several problems in one query parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedProblems(Vec<ProblemId>);

impl AskedProblems {
    const EXPECTED: &'static str = "the ids of 1 to 100 problems with commas between them";
}

impl std::str::FromStr for AskedProblems {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let ids: Vec<ProblemId> = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
        if ids.len() > Wanted::MAX {
            return Err(Invalid::new("problems", ids.len(), Self::EXPECTED));
        }
        Ok(Self(ids))
    }
}

/// How far one problem has come on a hardware.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Measuring {
    pub problem: ProblemId,
    pub state: MeasuringState,
    /// Why it is to be measured, where it is.
    pub purpose: Option<Purpose>,
    /// Why no device can measure it, where that is so.
    pub reason: Option<String>,
}

#[cfg(test)]
mod measuring_measuring_tests {
    use super::*;

    #[test]
    fn some_ids_are_asked_about_at_a_time() {
        let id = "0123456789abcdef";
        let parsed: AskedProblems = format!("{id},{id}").parse().unwrap();
        assert_eq!(parsed.0.len(), 2);
        let many = vec![id; Wanted::MAX + 1].join(",");
        for wrong in ["", "x", &format!("{id},"), &many] {
            assert!(wrong.parse::<AskedProblems>().is_err(), "{wrong}");
        }
        assert!(MeasuringQuery::default().problems().is_err());
    }
}
