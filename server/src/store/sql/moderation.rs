//! The SQL of moderation.

mod act;
mod merge;
mod records;

use async_trait::async_trait;
use diode_api::{HardwareMerge, LogEntry, Moderation, NewReport, Reason, Receipt, Report};
use diode_core::hardware::Facts;
use diode_core::ids::{AccountId, AgentId, HardwareSlug};
use sqlx::Database;

use super::connection::Connection;
use super::{SqlStore, log, reader, uploads};
use crate::store::error::StoreResult;
use crate::store::moderation::{Done, ModerationStore, NotMerged, UploadFilter};
use crate::store::types::Now;

#[async_trait]
impl<DB: Database<Connection: Connection>> ModerationStore for SqlStore<DB> {
    async fn moderate(&self, moderation: &Moderation, who: &str, now: Now) -> StoreResult<Option<Done>> {
        in_transaction!(self, tx => act::moderate(tx, moderation, who, now))
    }

    async fn confirm_hardware(
        &self,
        slug: &HardwareSlug,
        facts: Option<&Facts>,
        why: &Reason,
        who: &str,
        now: Now,
    ) -> StoreResult<bool> {
        in_transaction!(self, tx => act::confirm_hardware(tx, slug, facts, why, who, now))
    }

    async fn merge_hardware(
        &self,
        merge: &HardwareMerge,
        who: &str,
        now: Now,
    ) -> StoreResult<Result<u64, NotMerged>> {
        in_transaction!(self, tx => merge::merge(tx, merge, who, now), if Ok(_))
    }

    async fn readmit_agent(&self, agent: &AgentId, why: &Reason, who: &str, now: Now) -> StoreResult<bool> {
        in_transaction!(self, tx => act::readmit(tx, agent, why, who, now))
    }

    async fn write_down(&self, what: &str, why: &str, who: &str, now: Now) -> StoreResult<()> {
        in_transaction!(self, tx => log::note(tx, what, why, who, now))
    }

    async fn moderation_log(&self, limit: u32) -> StoreResult<Vec<LogEntry>> {
        log::list(&mut *reader(self).await?, limit).await
    }

    async fn add_report(
        &self,
        report: &NewReport,
        account: Option<&AccountId>,
        now: Now,
    ) -> StoreResult<bool> {
        in_transaction!(self, tx => records::add_report(tx, report, account, now))
    }

    async fn reports(&self, limit: u32) -> StoreResult<Vec<Report>> {
        records::reports(&mut *reader(self).await?, limit).await
    }

    async fn uploads(&self, filter: &UploadFilter, limit: u32) -> StoreResult<Vec<Receipt>> {
        uploads::list(&mut *reader(self).await?, filter, limit).await
    }
}
