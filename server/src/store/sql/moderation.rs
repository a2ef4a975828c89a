//! The SQL of moderation.

mod act;
mod merge;
mod records;

use diode_api::{HardwareMerge, LogEntry, Moderation, NewReport, Reason, Receipt, Report};
use diode_core::hardware::Facts;
use diode_core::ids::{AccountId, AgentId, HardwareSlug};

use super::{log, uploads};
use crate::store::Store;
use crate::store::connection::in_transaction;
use crate::store::error::StoreResult;
use crate::store::moderation::{Done, NotMerged, UploadFilter};
use crate::store::types::Now;

impl Store {
    /// Carries out a moderation, and writes it to the log. Boards, tables and datasets follow at once; entries of
    /// large uploads follow within seconds. `None` if there is no such upload or account.
    pub async fn moderate(&self, moderation: &Moderation, who: &str, now: Now) -> StoreResult<Option<Done>> {
        in_transaction!(self, tx => act::moderate(tx, moderation, who, now))
    }

    /// Confirms the stored facts of a hardware, or replaces them with `facts` and confirms these. Writes it to the
    /// log. Times that arrive later are judged by the confirmed facts. `false` if there are no facts to confirm.
    pub async fn confirm_hardware(
        &self,
        slug: &HardwareSlug,
        facts: Option<&Facts>,
        why: &Reason,
        who: &str,
        now: Now,
    ) -> StoreResult<bool> {
        in_transaction!(self, tx => act::confirm_hardware(tx, slug, facts, why, who, now))
    }

    /// Merges one hardware into another for good, and writes it to the log. The other hardware gets all timings of
    /// the first and its waiting work. It also gets uploads that arrive later under the first hardware's name. Boards
    /// follow within seconds. The models and snapshots of the first hardware stay, but none of its models is
    /// published any more. Returns how many solutions have moved.
    pub async fn merge_hardware(
        &self,
        merge: &HardwareMerge,
        who: &str,
        now: Now,
    ) -> StoreResult<Result<u64, NotMerged>> {
        in_transaction!(self, tx => merge::merge(tx, merge, who, now), if Ok(_))
    }

    /// Gives work again to an agent that was put aside, and writes it to the log. `false` if it was not put aside.
    pub async fn readmit_agent(
        &self,
        agent: &AgentId,
        why: &Reason,
        who: &str,
        now: Now,
    ) -> StoreResult<bool> {
        in_transaction!(self, tx => act::readmit(tx, agent, why, who, now))
    }

    /// Writes to the log an action that another part of the server did, such as a change of an account. `why` is the
    /// reason, or the way in which the action was done.
    pub async fn write_down(&self, what: &str, why: &str, who: &str, now: Now) -> StoreResult<()> {
        in_transaction!(self, tx => log::note(tx, what, why, who, now))
    }

    /// The newest entries of the log, newest first.
    pub async fn moderation_log(&self, limit: u32) -> StoreResult<Vec<LogEntry>> {
        log::list(&mut self.reader().await?, limit).await
    }

    /// Adds a report; `false` if there is no such upload.
    pub async fn add_report(
        &self,
        report: &NewReport,
        account: Option<&AccountId>,
        now: Now,
    ) -> StoreResult<bool> {
        in_transaction!(self, tx => records::add_report(tx, report, account, now))
    }

    /// The newest reports, newest first.
    pub async fn reports(&self, limit: u32) -> StoreResult<Vec<Report>> {
        records::reports(&mut self.reader().await?, limit).await
    }

    /// The newest uploads that pass a filter, the newest first.
    pub async fn uploads(&self, filter: &UploadFilter, limit: u32) -> StoreResult<Vec<Receipt>> {
        uploads::list(&mut self.reader().await?, filter, limit).await
    }
}
