//! The SQL of agents, their leases and their work.

mod check;
mod drivers;
mod known;
mod leading;
mod leases;
mod list;
mod measuring;
mod settle;
mod take;
mod work;

use diode_api::{Agent, LeaseState, LeaseSummary, Measuring, RefusedWork, Registration};
use diode_core::Problem;
use diode_core::ids::{AccountId, AgentId, HardwareSlug, LeaseId, ProblemId};

use super::hardware;
use crate::store::Store;
use crate::store::agents::{KnownAgent, KnownProblems, LeaseWish, NewWork, ReadUpTo, Taken, WorkFigures};
use crate::store::connection::in_transaction;
use crate::store::error::StoreResult;
use crate::store::types::Now;

pub(super) use check::check;
pub(super) use list::{move_to, readmit};
pub(super) use settle::settle;
pub(super) use work::waiting as waiting_work;
pub(super) use work::{reopen_for_others, reopen_of_account, reopen_of_upload};

impl Store {
    /// Adds an agent, or updates it. If its driver is new for the hardware and other agents have had another driver,
    /// some measured problems are queued again, for agents with the new driver.
    pub async fn register_agent(
        &self,
        id: &AgentId,
        account: Option<&AccountId>,
        registration: &Registration,
        now: Now,
    ) -> StoreResult<()> {
        in_transaction!(self, tx => list::register(tx, id, account, registration, now))
    }

    /// One agent; `None` if there is none with this id.
    pub async fn agent(&self, id: &AgentId) -> StoreResult<Option<KnownAgent>> {
        list::find(&mut self.reader().await?, id).await
    }

    /// The public summary of an agent, with counts of all that it has measured; `None` if there is none with this id.
    pub async fn agent_summary(&self, id: &AgentId) -> StoreResult<Option<Agent>> {
        list::summary(&mut self.reader().await?, id).await
    }

    /// How many agents have asked for something since this time.
    pub async fn agents_seen(&self, since: Now) -> StoreResult<u64> {
        list::count_seen(&mut self.reader().await?, since).await
    }

    /// The agents of a hardware, or all agents. Agents that were seen last come first.
    pub async fn agents(&self, hardware: Option<&HardwareSlug>, limit: u32) -> StoreResult<Vec<Agent>> {
        let whose = hardware.map(|slug| ("hardware", slug.as_str()));
        list::list(&mut self.reader().await?, whose, limit).await
    }

    /// The agents of an account. Agents that were seen last come first.
    pub async fn agents_of(&self, account: &AccountId, limit: u32) -> StoreResult<Vec<Agent>> {
        list::list(&mut self.reader().await?, Some(("account", account.as_str())), limit).await
    }

    /// The newest leases of an agent, newest first.
    pub async fn leases(&self, agent: &AgentId, limit: u32) -> StoreResult<Vec<LeaseSummary>> {
        leases::list(&mut self.reader().await?, agent, limit).await
    }

    /// Gives work to an agent: the work of its lease or, if it has no lease, the first of the work that waits. No
    /// other agent gets the same problem as long as the lease is renewed.
    pub async fn take_lease(&self, wish: &LeaseWish<'_>, now: Now) -> StoreResult<Taken> {
        in_transaction!(self, tx => take::take(tx, wish, now))
    }

    /// The agent of a lease; `None` if there is no lease with this id.
    pub async fn lease_agent(&self, lease: &LeaseId) -> StoreResult<Option<AgentId>> {
        leases::agent(&mut self.reader().await?, lease).await
    }

    /// Renews a lease. `false` if it has ended; the agent then stops.
    pub async fn renew_lease(&self, agent: &AgentId, lease: &LeaseId, now: Now) -> StoreResult<bool> {
        in_transaction!(self, tx => leases::renew(tx, agent, lease, now))
    }

    /// Ends a lease. Work that was not measured waits again. So does work that only this agent cannot measure: other
    /// agents may get it. Work that the hardware cannot measure does not wait again. Returns the state in which the
    /// lease ended; `None` if it had ended before.
    pub async fn end_lease(
        &self,
        agent: &AgentId,
        lease: &LeaseId,
        refused: &[RefusedWork],
        now: Now,
    ) -> StoreResult<Option<LeaseState>> {
        in_transaction!(self, tx => leases::end(tx, agent, lease, refused, now))
    }

    /// Stores that a result of an agent was refused. After [`MAX_REFUSED_RESULTS`] refused results the agent is put
    /// aside. Returns `true` if this result was the last of them.
    pub async fn note_refused_result(&self, agent: &AgentId, reason: &str) -> StoreResult<bool> {
        in_transaction!(self, tx => list::note_refused_result(tx, agent, reason))
    }

    /// How many planned problems wait that agents like this one can measure, each within `seconds`. Counts up to
    /// `most`.
    pub async fn planned_for(&self, agent: &KnownAgent, seconds: f64, most: u64) -> StoreResult<u64> {
        take::planned_for(&mut self.reader().await?, agent, seconds, most).await
    }

    /// The next part of the known problems of a hardware, measured or planned. The parts have a limited size.
    pub async fn known_problems(
        &self,
        hardware: &HardwareSlug,
        after: &ReadUpTo,
    ) -> StoreResult<KnownProblems> {
        known::read(&mut self.read_transaction().await?, hardware, after).await
    }

    /// A count that grows when problems of a hardware may have lost their solutions, for example by a quarantine. 0
    /// for hardware that nobody has measured.
    pub async fn losses(&self, hardware: &HardwareSlug) -> StoreResult<u64> {
        hardware::losses(&mut self.reader().await?, hardware).await
    }

    /// The problems of a hardware that have a solution that counts.
    pub async fn measured_problems(&self, hardware: &HardwareSlug) -> StoreResult<Vec<Problem>> {
        work::measured(&mut self.reader().await?, hardware).await
    }

    /// Adds work, except for problems that are planned or measured already. Returns how many were added.
    pub async fn add_work(&self, hardware: &HardwareSlug, work: &[NewWork]) -> StoreResult<u64> {
        in_transaction!(self, tx => work::add_unmeasured(tx, hardware, work))
    }

    /// The state of some problems on a hardware, in their order. They must be few enough for one statement.
    pub async fn measuring(
        &self,
        hardware: &HardwareSlug,
        problems: &[ProblemId],
        now: Now,
    ) -> StoreResult<Vec<Measuring>> {
        measuring::read(&mut self.read_transaction().await?, hardware, problems, now).await
    }

    /// How much work waits, is leased or is confirmed.
    pub async fn work_figures(&self, hardware: &HardwareSlug) -> StoreResult<WorkFigures> {
        work::figures(&mut self.read_transaction().await?, hardware).await
    }
}
