//! What the rest of the server may ask of the store about agents and their leases.

use std::time::Duration;

use diode_api::{Breadth, Purpose, Registration};
use diode_core::Problem;
use diode_core::ids::{AccountId, AgentId, HardwareSlug, LeaseId, ProblemId};

/// A lease ends unless its agent renews it within this time. This time is longer than a restart of the server takes.
pub const AGENT_LEASE: Duration = Duration::from_secs(180);

/// How many refused results it takes until an agent gets no more work.
pub const MAX_REFUSED_RESULTS: u64 = 3;

/// The contributor that stands for all agents without an account.
pub(super) const ANONYMOUS: &str = "anonymous";

/// What the server needs of an agent for each of its requests.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownAgent {
    pub id: AgentId,
    /// Why the agent gets no more work; `None` if it gets work.
    pub put_aside: Option<String>,
    /// `None` if the agent registered without an account.
    pub account: Option<AccountId>,
    pub registration: Registration,
}

impl KnownAgent {
    pub fn hardware(&self) -> &HardwareSlug {
        &self.registration.hardware.slug
    }

    /// The driver that the agent has stated.
    pub fn driver(&self) -> Option<&str> {
        driver_of(&self.registration)
    }

    /// The contributor of the agent's results. A confirmation needs another contributor. All agents without an
    /// account are one contributor, as anonymous uploads are: a second key does not show that there is a second
    /// person.
    pub fn contributor(&self) -> &str {
        self.account.as_ref().map_or(ANONYMOUS, AccountId::as_str)
    }
}

pub(super) fn driver_of(registration: &Registration) -> Option<&str> {
    registration.node.get("driver").map(String::as_str)
}

/// What an agent asks for.
#[derive(Debug, Clone)]
pub struct LeaseWish<'a> {
    pub agent: &'a KnownAgent,
    /// The id of a new lease.
    pub id: LeaseId,
    /// How long all of the work may take.
    pub seconds: f64,
    /// Whether more may be planned. If not, only work that waits is given.
    pub may_plan: bool,
}

/// What an agent gets.
#[derive(Debug, Clone, PartialEq)]
pub enum Taken {
    /// A new lease, or the lease that the agent already has.
    Lease(LeasedWork),
    /// More must be planned first: nothing of the plan waits for this agent.
    PlanFirst,
    /// No work waits for this agent.
    Nothing,
}

/// A lease with its work that has not been measured yet.
#[derive(Debug, Clone, PartialEq)]
pub struct LeasedWork {
    pub id: LeaseId,
    pub work: Vec<NewWork>,
}

/// A problem to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct NewWork {
    pub problem: Problem,
    pub purpose: Purpose,
    pub breadth: Breadth,
    pub seconds: f64,
}

/// How far the known problems of a hardware have been read. The plan need not ask for these problems.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadUpTo {
    /// The last position that was read. Problems that are planned later have a higher position.
    pub planned: i64,
    pub measured: MeasuredUpTo,
}

/// How far the problems that were measured without the plan have been read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum MeasuredUpTo {
    #[default]
    Nothing,
    Problem(ProblemId),
    /// All problems that were measured before the reading reached its end. Problems that are measured later are not
    /// read.
    Everything,
}

/// Some of the known problems of a hardware.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KnownProblems {
    pub problems: Vec<Problem>,
    pub read: ReadUpTo,
    /// Whether all known problems have been read for now.
    pub is_all: bool,
}

/// How much work there is on a hardware.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkFigures {
    pub waiting: u64,
    pub leased: u64,
    pub confirmed: u64,
}
