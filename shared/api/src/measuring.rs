//! Problems that people want measured, and how far each has come.

use diode_core::ids::ProblemId;
use diode_core::named_enum::named_enum;
use diode_core::{Invalid, Problem};
use serde::{Deserialize, Serialize};

use crate::Purpose;
use crate::query::from_text;

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
mod measuring_tests {
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
