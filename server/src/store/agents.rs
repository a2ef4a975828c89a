//! What the rest of the server may ask of the store about agents and their leases.

use std::time::Duration;

use async_trait::async_trait;
use diode_api::{Agent, Breadth, LeaseState, LeaseSummary, Measuring, Purpose, RefusedWork, Registration};
use diode_core::Problem;
use diode_core::ids::{AccountId, AgentId, HardwareSlug, LeaseId, ProblemId};

use super::error::StoreResult;
use super::types::Now;

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

/// What the server stores about agents. Every method is one transaction.
#[async_trait]
pub trait AgentStore: Send + Sync {
    /// Adds an agent, or updates it. If its driver is new for the hardware and other agents have had another driver,
    /// some measured problems are queued again, for agents with the new driver.
    async fn register_agent(
        &self,
        id: &AgentId,
        account: Option<&AccountId>,
        registration: &Registration,
        now: Now,
    ) -> StoreResult<()>;

    /// One agent; `None` if there is none with this id.
    async fn agent(&self, id: &AgentId) -> StoreResult<Option<KnownAgent>>;

    /// The public summary of an agent, with counts of all that it has measured; `None` if there is none with this id.
    async fn agent_summary(&self, id: &AgentId) -> StoreResult<Option<Agent>>;

    /// How many agents have asked for something since this time.
    async fn agents_seen(&self, since: Now) -> StoreResult<u64>;

    /// The agents of a hardware, or all agents. Agents that were seen last come first.
    async fn agents(&self, hardware: Option<&HardwareSlug>, limit: u32) -> StoreResult<Vec<Agent>>;

    /// The agents of an account. Agents that were seen last come first.
    async fn agents_of(&self, account: &AccountId, limit: u32) -> StoreResult<Vec<Agent>>;

    /// The newest leases of an agent, newest first.
    async fn leases(&self, agent: &AgentId, limit: u32) -> StoreResult<Vec<LeaseSummary>>;

    /// Gives work to an agent: the work of its lease or, if it has no lease, the first of the work that waits. No
    /// other agent gets the same problem as long as the lease is renewed.
    async fn take_lease(&self, wish: &LeaseWish<'_>, now: Now) -> StoreResult<Taken>;

    /// The agent of a lease; `None` if there is no lease with this id.
    async fn lease_agent(&self, lease: &LeaseId) -> StoreResult<Option<AgentId>>;

    /// Renews a lease. `false` if it has ended; the agent then stops.
    async fn renew_lease(&self, agent: &AgentId, lease: &LeaseId, now: Now) -> StoreResult<bool>;

    /// Ends a lease. Work that was not measured waits again. So does work that only this agent cannot measure: other
    /// agents may get it. Work that the hardware cannot measure does not wait again. Returns the state in which the
    /// lease ended; `None` if it had ended before.
    async fn end_lease(
        &self,
        agent: &AgentId,
        lease: &LeaseId,
        refused: &[RefusedWork],
        now: Now,
    ) -> StoreResult<Option<LeaseState>>;

    /// Stores that a result of an agent was refused. After [`MAX_REFUSED_RESULTS`] refused results the agent is put
    /// aside. Returns `true` if this result was the last of them.
    async fn note_refused_result(&self, agent: &AgentId, reason: &str) -> StoreResult<bool>;

    /// How many planned problems wait that agents like this one can measure, each within `seconds`. Counts up to
    /// `most`.
    async fn planned_for(&self, agent: &KnownAgent, seconds: f64, most: u64) -> StoreResult<u64>;

    /// The next part of the known problems of a hardware, measured or planned. The parts have a limited size.
    async fn known_problems(&self, hardware: &HardwareSlug, after: &ReadUpTo) -> StoreResult<KnownProblems>;

    /// A count that grows when problems of a hardware may have lost their solutions, for example by a quarantine. 0
    /// for hardware that nobody has measured.
    async fn losses(&self, hardware: &HardwareSlug) -> StoreResult<u64>;

    /// The problems of a hardware that have a solution that counts.
    async fn measured_problems(&self, hardware: &HardwareSlug) -> StoreResult<Vec<Problem>>;

    /// Adds work, except for problems that are planned or measured already. Returns how many were added.
    async fn add_work(&self, hardware: &HardwareSlug, work: &[NewWork]) -> StoreResult<u64>;

    /// The state of some problems on a hardware, in their order. They must be few enough for one statement.
    async fn measuring(
        &self,
        hardware: &HardwareSlug,
        problems: &[ProblemId],
        now: Now,
    ) -> StoreResult<Vec<Measuring>>;

    /// How much work waits, is leased or is confirmed.
    async fn work_figures(&self, hardware: &HardwareSlug) -> StoreResult<WorkFigures>;
}
