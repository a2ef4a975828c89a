//! Leases: what an agent is to measure, and what became of it.

use diode_core::ids::{LeaseId, ProblemId};
use diode_core::named_enum::named_enum;
use diode_core::{Invalid, Problem};
use serde::{Deserialize, Serialize};

named_enum! {
    /// Why a problem is to be measured.
    Purpose("purpose") {
        /// Nothing of its kind has been measured on the hardware.
        Hole = "hole",
        /// Somebody has asked for it.
        Wanted = "wanted",
        /// A model's picks were bad for measured problems of its kind.
        Weak = "weak",
        /// One contributor has measured it, and a second one is to confirm the result.
        Confirm = "confirm",
        /// It was measured with other drivers only. This driver may change its times.
        Again = "again",
        /// Little of its kind has been measured.
        More = "more",
    }
}

named_enum! {
    /// Which configs are to be timed on a problem.
    Breadth("breadth") {
        /// The full space.
        Full = "full",
        /// The default space, and a hundred random configs of the full space.
        Sample = "sample",
    }
}

named_enum! {
    /// What became of a lease.
    LeaseState("lease state") {
        Active = "active",
        /// All of its problems were measured or refused.
        Done = "done",
        /// The agent has given back some of its problems.
        Returned = "returned",
        /// The agent did not renew it in time.
        Expired = "expired",
    }
}

named_enum! {
    /// Which devices a problem's refusal concerns.
    Reach("reach") {
        /// All devices of the hardware.
        Hardware = "hardware",
        /// The agent that refused: it lacks kernels or memory that other agents may have.
        Agent = "agent",
    }
}

/// What a lease was for, and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LeaseSummary {
    pub id: LeaseId,
    pub state: LeaseState,
    pub taken_at: String,
    pub ended_at: Option<String>,
    /// How long the work was expected to take.
    pub seconds: f64,
    pub problems: u64,
    pub measured: u64,
}

/// Asks for work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LeaseRequest {
    /// How long the work is to take, as the server expects it; 1 to 3600.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 3600))]
    pub seconds: f64,
}

impl LeaseRequest {
    pub const MAX_SECONDS: f64 = 3600.0;

    pub fn check(&self) -> Result<(), Invalid> {
        if (1.0..=Self::MAX_SECONDS).contains(&self.seconds) {
            return Ok(());
        }
        Err(Invalid::new("seconds", self.seconds, format!("1 to {}", Self::MAX_SECONDS)))
    }
}

/// The work an agent got, if there is any.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LeaseAnswer {
    pub lease: Option<Lease>,
    /// Where there is none, after how many seconds to ask again.
    pub ask_again: u64,
}

/// An agent's right to measure some problems, as long as it renews it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Lease {
    pub id: LeaseId,
    /// Seconds until it expires.
    pub expires_in: u64,
    /// What is still to be measured.
    pub work: Vec<LeasedProblem>,
}

/// One problem to measure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = Work))]
pub struct LeasedProblem {
    pub problem: Problem,
    pub purpose: Purpose,
    /// The purpose in words, for people.
    pub why: String,
    pub breadth: Breadth,
    /// Whether it is for judging models, not for training them.
    pub kept: bool,
    /// How long the server expects it to take.
    pub seconds: f64,
}

/// A lease that goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Renewal {
    /// Seconds until it expires.
    pub expires_in: u64,
}

/// Ends a lease: what has not been measured goes back, but for what the device cannot measure.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GivenBack {
    #[serde(default)]
    pub refused: Vec<RefusedWork>,
}

/// A problem that a device cannot measure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RefusedWork {
    pub problem: ProblemId,
    pub reason: String,
    /// Programs that do not say it may lack kernels.
    #[serde(default = "RefusedWork::usual_reach")]
    pub reach: Reach,
}

impl RefusedWork {
    const fn usual_reach() -> Reach {
        Reach::Agent
    }
}
