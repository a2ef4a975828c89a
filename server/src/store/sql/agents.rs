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

use async_trait::async_trait;
use diode_api::{Agent, LeaseState, LeaseSummary, Measuring, RefusedWork, Registration};
use diode_core::Problem;
use diode_core::ids::{AccountId, AgentId, HardwareSlug, LeaseId, ProblemId};
use sqlx::Database;

use super::connection::Connection;
use super::{SqlStore, hardware, reader, snapshot};
use crate::store::agents::{
    AgentStore, KnownAgent, KnownProblems, LeaseWish, NewWork, ReadUpTo, Taken, WorkFigures,
};
use crate::store::error::StoreResult;
use crate::store::types::Now;

pub(super) use check::check;
pub(super) use list::{move_to, readmit};
pub(super) use settle::settle;
pub(super) use work::waiting as waiting_work;
pub(super) use work::{reopen_for_others, reopen_of_account, reopen_of_upload};

#[async_trait]
impl<DB: Database<Connection: Connection>> AgentStore for SqlStore<DB> {
    async fn register_agent(
        &self,
        id: &AgentId,
        account: Option<&AccountId>,
        registration: &Registration,
        now: Now,
    ) -> StoreResult<()> {
        in_transaction!(self, tx => list::register(tx, id, account, registration, now))
    }

    async fn agent(&self, id: &AgentId) -> StoreResult<Option<KnownAgent>> {
        list::find(&mut *reader(self).await?, id).await
    }

    async fn agent_summary(&self, id: &AgentId) -> StoreResult<Option<Agent>> {
        list::summary(&mut *reader(self).await?, id).await
    }

    async fn agents_seen(&self, since: Now) -> StoreResult<u64> {
        list::count_seen(&mut *reader(self).await?, since).await
    }

    async fn agents(&self, hardware: Option<&HardwareSlug>, limit: u32) -> StoreResult<Vec<Agent>> {
        let whose = hardware.map(|slug| ("hardware", slug.as_str()));
        list::list(&mut *reader(self).await?, whose, limit).await
    }

    async fn agents_of(&self, account: &AccountId, limit: u32) -> StoreResult<Vec<Agent>> {
        list::list(&mut *reader(self).await?, Some(("account", account.as_str())), limit).await
    }

    async fn leases(&self, agent: &AgentId, limit: u32) -> StoreResult<Vec<LeaseSummary>> {
        leases::list(&mut *reader(self).await?, agent, limit).await
    }

    async fn take_lease(&self, wish: &LeaseWish<'_>, now: Now) -> StoreResult<Taken> {
        in_transaction!(self, tx => take::take(tx, wish, now))
    }

    async fn lease_agent(&self, lease: &LeaseId) -> StoreResult<Option<AgentId>> {
        leases::agent(&mut *reader(self).await?, lease).await
    }

    async fn renew_lease(&self, agent: &AgentId, lease: &LeaseId, now: Now) -> StoreResult<bool> {
        in_transaction!(self, tx => leases::renew(tx, agent, lease, now))
    }

    async fn end_lease(
        &self,
        agent: &AgentId,
        lease: &LeaseId,
        refused: &[RefusedWork],
        now: Now,
    ) -> StoreResult<Option<LeaseState>> {
        in_transaction!(self, tx => leases::end(tx, agent, lease, refused, now))
    }

    async fn note_refused_result(&self, agent: &AgentId, reason: &str) -> StoreResult<bool> {
        in_transaction!(self, tx => list::note_refused_result(tx, agent, reason))
    }

    async fn planned_for(&self, agent: &KnownAgent, seconds: f64, most: u64) -> StoreResult<u64> {
        take::planned_for(&mut *reader(self).await?, agent, seconds, most).await
    }

    async fn known_problems(&self, hardware: &HardwareSlug, after: &ReadUpTo) -> StoreResult<KnownProblems> {
        known::read(&mut *snapshot(self).await?, hardware, after).await
    }

    async fn losses(&self, hardware: &HardwareSlug) -> StoreResult<u64> {
        hardware::losses(&mut *reader(self).await?, hardware).await
    }

    async fn measured_problems(&self, hardware: &HardwareSlug) -> StoreResult<Vec<Problem>> {
        work::measured(&mut *reader(self).await?, hardware).await
    }

    async fn add_work(&self, hardware: &HardwareSlug, work: &[NewWork]) -> StoreResult<u64> {
        in_transaction!(self, tx => work::add_unmeasured(tx, hardware, work))
    }

    async fn measuring(
        &self,
        hardware: &HardwareSlug,
        problems: &[ProblemId],
        now: Now,
    ) -> StoreResult<Vec<Measuring>> {
        measuring::read(&mut *snapshot(self).await?, hardware, problems, now).await
    }

    async fn work_figures(&self, hardware: &HardwareSlug) -> StoreResult<WorkFigures> {
        work::figures(&mut *snapshot(self).await?, hardware).await
    }
}
