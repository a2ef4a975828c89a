//! Agents and their leases in domain words: what the rest of the server may ask of the store about them.

use std::time::Duration;

use async_trait::async_trait;
use diode_core::Problem;
use diode_core::api::{
    Agent, Breadth, LeaseState, LeaseSummary, Measuring, Purpose, RefusedWork, Registration,
};
use diode_core::ids::{AccountId, AgentId, HardwareSlug, LeaseId, ProblemId};

use super::error::StoreResult;
use super::types::Now;

/// An agent that has not renewed its lease for this long is taken for dead. Longer than a restart of the server.
pub const AGENT_LEASE: Duration = Duration::from_secs(180);

/// An agent of which so many results were refused gets no work any more.
pub const MAX_REFUSED_RESULTS: u64 = 3;

/// The contributor of all agents without an account.
pub(super) const ANONYMOUS: &str = "anonymous";

/// What every request of an agent is judged by.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownAgent {
    pub id: AgentId,
    /// Why it gets no work any more.
    pub put_aside: Option<String>,
    /// `None` if it came without an account.
    pub account: Option<AccountId>,
    pub registration: Registration,
}

impl KnownAgent {
    pub fn hardware(&self) -> &HardwareSlug {
        &self.registration.hardware.slug
    }

    /// What it has said of its driver.
    pub fn driver(&self) -> Option<&str> {
        driver_of(&self.registration)
    }

    /// Who contributes what it measures: confirmations are asked of others. All agents without an account are one
    /// contributor, as uploads are: a second key makes no second person.
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
    /// Whether the plan may be gone on with. Otherwise what waits must do.
    pub may_plan: bool,
}

/// What an agent gets.
#[derive(Debug, Clone, PartialEq)]
pub enum Taken {
    /// A new lease, or the one it has.
    Lease(LeasedWork),
    /// The plan must be gone on with first: nothing of it waits for this agent.
    PlanFirst,
    /// Nothing waits for this agent.
    Nothing,
}

/// A lease with what is still to be measured.
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

/// How far the problems of a hardware have been read that the plan need not ask for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadUpTo {
    /// What is planned later has a higher position.
    pub planned: i64,
    pub measured: MeasuredUpTo,
}

/// The same of what was measured without the plan.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum MeasuredUpTo {
    #[default]
    Nothing,
    Problem(ProblemId),
    /// To its end. What is measured later is not read.
    Everything,
}

/// Some of the problems that the plan need not ask for.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct KnownProblems {
    pub problems: Vec<Problem>,
    pub read: ReadUpTo,
    /// Whether there are no more for now.
    pub is_all: bool,
}

/// How much work there is on a hardware.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkFigures {
    pub waiting: u64,
    pub leased: u64,
    pub confirmed: u64,
}

/// What the server remembers of agents. Every method is one transaction.
#[async_trait]
pub trait AgentStore: Send + Sync {
    /// Makes an agent known, or changes what is known of it. If it has a driver that no agent of the hardware has had,
    /// while others had another, some of what was measured is to be measured again by those that have it.
    async fn register_agent(
        &self,
        id: &AgentId,
        account: Option<&AccountId>,
        registration: &Registration,
        now: Now,
    ) -> StoreResult<()>;

    /// One agent; `None` if there is none by this id.
    async fn agent(&self, id: &AgentId) -> StoreResult<Option<KnownAgent>>;

    /// What people are told of an agent; `None` if there is none by this id. Counts all that it has measured.
    async fn agent_summary(&self, id: &AgentId) -> StoreResult<Option<Agent>>;

    /// How many agents have asked for something since then.
    async fn agents_seen(&self, since: Now) -> StoreResult<u64>;

    /// The agents of a hardware, or all; those seen last first.
    async fn agents(&self, hardware: Option<&HardwareSlug>, limit: u32) -> StoreResult<Vec<Agent>>;

    /// The agents of an account; those seen last first.
    async fn agents_of(&self, account: &AccountId, limit: u32) -> StoreResult<Vec<Agent>>;

    /// The newest leases of an agent, newest first.
    async fn leases(&self, agent: &AgentId, limit: u32) -> StoreResult<Vec<LeaseSummary>>;

    /// Gives work to an agent: that of the lease it has, if it has one, else what is first of what waits. No two
    /// agents get the same problem as long as the first renews its lease.
    async fn take_lease(&self, wish: &LeaseWish<'_>, now: Now) -> StoreResult<Taken>;

    /// Whose a lease is; `None` if there is none by this id.
    async fn lease_agent(&self, lease: &LeaseId) -> StoreResult<Option<AgentId>>;

    /// Renews a lease. `false` if it has ended; the agent then stops.
    async fn renew_lease(&self, agent: &AgentId, lease: &LeaseId, now: Now) -> StoreResult<bool>;

    /// Ends a lease. What has not been measured waits again, but for what the hardware cannot measure; what the
    /// agent alone cannot waits for others. The state it ends in; `None` if it had ended.
    async fn end_lease(
        &self,
        agent: &AgentId,
        lease: &LeaseId,
        refused: &[RefusedWork],
        now: Now,
    ) -> StoreResult<Option<LeaseState>>;

    /// Notes that a result of an agent was refused. After [`MAX_REFUSED_RESULTS`] it is put aside; `true` if it was just
    /// now.
    async fn note_refused_result(&self, agent: &AgentId, reason: &str) -> StoreResult<bool>;

    /// How much of the plan waits for agents like this one, problems of at most so many seconds each. Counts no
    /// further than to `most`.
    async fn planned_for(&self, agent: &KnownAgent, seconds: f64, most: u64) -> StoreResult<u64>;

    /// The next problems of a hardware that have been measured or are planned, as many as are read at a time.
    async fn known_problems(&self, hardware: &HardwareSlug, after: &ReadUpTo) -> StoreResult<KnownProblems>;

    /// How often problems of a hardware may have ceased to be measured, as when an upload is quarantined; 0 for
    /// hardware that nobody has measured.
    async fn losses(&self, hardware: &HardwareSlug) -> StoreResult<u64>;

    /// The problems of a hardware of which a solution counts.
    async fn measured_problems(&self, hardware: &HardwareSlug) -> StoreResult<Vec<Problem>>;

    /// Adds what is to be measured, but for what is planned or measured already; returns how much it was.
    async fn add_work(&self, hardware: &HardwareSlug, work: &[NewWork]) -> StoreResult<u64>;

    /// How far some problems have come on a hardware, in their order; few enough for one statement.
    async fn measuring(
        &self,
        hardware: &HardwareSlug,
        problems: &[ProblemId],
        now: Now,
    ) -> StoreResult<Vec<Measuring>>;

    /// How much work waits and so on.
    async fn work_figures(&self, hardware: &HardwareSlug) -> StoreResult<WorkFigures>;
}
