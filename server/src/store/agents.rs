//! Agents and their leases in domain words: what the rest of the server may ask of the store about them.

use std::time::Duration;

use async_trait::async_trait;
use diode_core::Problem;
use diode_core::api::{Agent, Breadth, LeaseState, LeaseSummary, Purpose, RefusedWork, Registration};
use diode_core::ids::{AccountId, AgentId, HardwareSlug, LeaseId};

use super::error::StoreResult;
use super::types::Now;

/// An agent that has not renewed its lease for this long is taken for dead. Longer than a restart of the server.
pub const AGENT_LEASE: Duration = Duration::from_secs(180);

/// An agent of which so many results were refused gets no work any more.
pub const MAX_REFUSED_RESULTS: u64 = 3;

/// An agent with what only the server needs to know of it.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownAgent {
    pub agent: Agent,
    /// `None` if it came without an account.
    pub account: Option<AccountId>,
    pub registration: Registration,
}

impl KnownAgent {
    /// Who contributes what it measures: confirmations are asked of others. All agents without an account are one
    /// contributor, as uploads are: a second key makes no second person.
    pub fn contributor(&self) -> &str {
        self.account.as_ref().map_or("anonymous", AccountId::as_str)
    }
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

/// The lease that an upload is the result of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForLease {
    pub lease: LeaseId,
    pub agent: AgentId,
    /// See [`KnownAgent::contributor`].
    pub contributor: String,
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
    /// Makes an agent known, or changes what is known of it.
    async fn register_agent(
        &self,
        id: &AgentId,
        account: Option<&AccountId>,
        registration: &Registration,
        now: Now,
    ) -> StoreResult<()>;

    /// One agent; `None` if there is none by this id.
    async fn agent(&self, id: &AgentId) -> StoreResult<Option<KnownAgent>>;

    /// The agents of a hardware, or all; those seen last first.
    async fn agents(&self, hardware: Option<&HardwareSlug>, limit: u32) -> StoreResult<Vec<Agent>>;

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

    /// Notes that a result of an agent was refused. After [`MAX_REFUSED_RESULTS`] it is put aside.
    async fn note_refused_result(&self, agent: &AgentId, reason: &str) -> StoreResult<()>;

    /// The problems of a hardware that have been measured or are planned. What was measured by an agent and is
    /// there no more, since the upload was removed, waits again.
    async fn known_problems(&self, hardware: &HardwareSlug) -> StoreResult<Vec<Problem>>;

    /// The problems of a hardware of which a solution counts.
    async fn measured_problems(&self, hardware: &HardwareSlug) -> StoreResult<Vec<Problem>>;

    /// Adds what is to be measured; returns how much of it was not known yet.
    async fn add_work(&self, hardware: &HardwareSlug, work: &[NewWork]) -> StoreResult<u64>;

    /// How much work waits and so on.
    async fn work_figures(&self, hardware: &HardwareSlug) -> StoreResult<WorkFigures>;
}
