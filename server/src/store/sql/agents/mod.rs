//! The SQL of agents, their leases and their work.

mod leases;
mod list;
mod settle;
mod take;
mod work;

use async_trait::async_trait;
use diode_core::Problem;
use diode_core::api::{Agent, LeaseState, LeaseSummary, RefusedWork, Registration};
use diode_core::ids::{AccountId, AgentId, HardwareSlug, LeaseId};
use sqlx::Database;

use super::connection::Connection;
use super::{SqlStore, reader, snapshot, writer};
use crate::store::agents::{AgentStore, KnownAgent, LeaseWish, NewWork, Taken, WorkFigures};
use crate::store::error::StoreResult;
use crate::store::types::Now;

pub(super) use list::readmit;
pub(super) use settle::settle;

#[async_trait]
impl<DB: Database<Connection: Connection>> AgentStore for SqlStore<DB> {
    async fn register_agent(
        &self,
        id: &AgentId,
        account: Option<&AccountId>,
        registration: &Registration,
        now: Now,
    ) -> StoreResult<()> {
        let mut tx = writer(self).await?;
        list::register(&mut *tx, id, account, registration, now).await?;
        Ok(tx.commit().await?)
    }

    async fn agent(&self, id: &AgentId) -> StoreResult<Option<KnownAgent>> {
        list::find(&mut *reader(self).await?, id).await
    }

    async fn agents(&self, hardware: Option<&HardwareSlug>, limit: u32) -> StoreResult<Vec<Agent>> {
        list::list(&mut *reader(self).await?, hardware, limit).await
    }

    async fn leases(&self, agent: &AgentId, limit: u32) -> StoreResult<Vec<LeaseSummary>> {
        leases::list(&mut *reader(self).await?, agent, limit).await
    }

    async fn take_lease(&self, wish: &LeaseWish<'_>, now: Now) -> StoreResult<Taken> {
        let mut tx = writer(self).await?;
        let taken = take::take(&mut *tx, wish, now).await?;
        tx.commit().await?;
        Ok(taken)
    }

    async fn lease_agent(&self, lease: &LeaseId) -> StoreResult<Option<AgentId>> {
        leases::agent(&mut *reader(self).await?, lease).await
    }

    async fn renew_lease(&self, agent: &AgentId, lease: &LeaseId, now: Now) -> StoreResult<bool> {
        let mut tx = writer(self).await?;
        let renewed = leases::renew(&mut *tx, agent, lease, now).await?;
        tx.commit().await?;
        Ok(renewed)
    }

    async fn end_lease(
        &self,
        agent: &AgentId,
        lease: &LeaseId,
        refused: &[RefusedWork],
        now: Now,
    ) -> StoreResult<Option<LeaseState>> {
        let mut tx = writer(self).await?;
        let state = leases::end(&mut *tx, agent, lease, refused, now).await?;
        tx.commit().await?;
        Ok(state)
    }

    async fn note_refused_result(&self, agent: &AgentId, reason: &str) -> StoreResult<()> {
        let mut tx = writer(self).await?;
        list::note_refused_result(&mut *tx, agent, reason).await?;
        Ok(tx.commit().await?)
    }

    async fn known_problems(&self, hardware: &HardwareSlug) -> StoreResult<Vec<Problem>> {
        let mut tx = writer(self).await?;
        work::reopen_removed(&mut *tx, hardware).await?;
        let known = work::known(&mut *tx, hardware).await?;
        tx.commit().await?;
        Ok(known)
    }

    async fn measured_problems(&self, hardware: &HardwareSlug) -> StoreResult<Vec<Problem>> {
        work::measured(&mut *reader(self).await?, hardware).await
    }

    async fn add_work(&self, hardware: &HardwareSlug, work: &[NewWork]) -> StoreResult<u64> {
        let mut tx = writer(self).await?;
        let added = work::add(&mut *tx, hardware, work, None).await?;
        tx.commit().await?;
        Ok(added)
    }

    async fn work_figures(&self, hardware: &HardwareSlug) -> StoreResult<WorkFigures> {
        work::figures(&mut *snapshot(self).await?, hardware).await
    }
}
