//! The SQL, one copy for both databases. [`connection::Connection`] names what
//! differs; `store::sqlite` and `store::postgres` fill it in.

mod accounts;
mod agents;
mod board;
mod board_entries;
mod checks;
pub(super) mod connection;
mod deviations;
mod fields;
mod figures;
mod from_row;
mod hardware;
mod inserts;
mod jobs;
mod judging;
mod memory;
mod models;
mod moderation;
mod nearest;
mod packs;
mod problems;
mod publications;
mod removal;
mod senders;
mod sizes;
mod solutions;
mod stale_entries;
mod standing;
pub(super) mod statement;
mod summaries;
mod upkeep;
mod uploads;

use std::ops::RangeInclusive;
use std::time::Duration;

use async_trait::async_trait;
use diode_core::api::{
    HardwareSummary, Job, JobEvent, Leaderboard, ModelSummary, NearestProblem, ProblemFilter, ProblemPoint,
    ProblemView, Receipt,
};
use diode_core::hardware::Hardware;
use diode_core::ids::{AccountId, HardwareSlug, JobId, ModelId, ProblemId, UploadId};
use diode_core::{Method, Problem};
use sqlx::pool::PoolConnection;
use sqlx::{Database, Pool, Transaction};

use super::error::StoreResult;
use super::interface::Store;
use super::types::{BoardQuery, Claim, KnownHardware, NewUpload, Now, Queued, TrainingData, View};
use crate::consensus::BoardEntry;
use crate::solutions::StoredSolutions;
use board::{Counted, Totals};
use connection::Connection;
use memory::Memory;
use solutions::Selection;
use statement::Statement;
use summaries::Figures;

/// How long a request waits for a connection before it is told to come back.
pub(super) const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// A store in one of the databases.
pub struct SqlStore<DB: Database> {
    /// For what changes nothing.
    pub(super) readers: Pool<DB>,
    /// For what does; may be the same pool.
    pub(super) writers: Pool<DB>,
    figures: Memory<HardwareSlug, Figures>,
    totals: Memory<Counted, Totals>,
}

impl<DB: Database> SqlStore<DB> {
    pub(super) fn new(readers: Pool<DB>, writers: Pool<DB>) -> Self {
        Self { readers, writers, figures: Memory::default(), totals: Memory::default() }
    }
}

/// A connection for a single query.
async fn reader<DB: Database>(store: &SqlStore<DB>) -> StoreResult<PoolConnection<DB>> {
    Ok(store.readers.acquire().await?)
}

/// A transaction for queries that must all see the same state.
async fn snapshot<DB>(store: &SqlStore<DB>) -> StoreResult<Transaction<'static, DB>>
where
    DB: Database<Connection: Connection>,
{
    Ok(store.readers.begin_with(DB::Connection::BEGIN_READ).await?)
}

/// A transaction that writes.
async fn writer<DB>(store: &SqlStore<DB>) -> StoreResult<Transaction<'static, DB>>
where
    DB: Database<Connection: Connection>,
{
    Ok(store.writers.begin_with(DB::Connection::BEGIN_WRITE).await?)
}

#[async_trait]
impl<DB: Database<Connection: Connection>> Store for SqlStore<DB> {
    async fn ping(&self) -> StoreResult<()> {
        reader(self).await?.execute(Statement::new("SELECT 1")).await?;
        Ok(())
    }

    async fn receipt(&self, upload: &UploadId) -> StoreResult<Option<Receipt>> {
        uploads::receipt(&mut *reader(self).await?, upload).await
    }

    async fn store_upload(&self, upload: &NewUpload) -> StoreResult<Receipt> {
        let mut tx = writer(self).await?;
        let receipt = uploads::store(&mut *tx, upload).await?;
        tx.commit().await?;
        Ok(receipt)
    }

    async fn add_sender(&self, upload: &UploadId, account: &AccountId) -> StoreResult<bool> {
        let mut tx = writer(self).await?;
        let added = senders::add(&mut *tx, upload, account).await?;
        tx.commit().await?;
        Ok(added)
    }

    async fn hardware_list(&self) -> StoreResult<Vec<HardwareSummary>> {
        summaries::list(&mut *snapshot(self).await?, &self.figures, None).await
    }

    async fn hardware_summary(&self, slug: &HardwareSlug) -> StoreResult<Option<HardwareSummary>> {
        Ok(summaries::list(&mut *snapshot(self).await?, &self.figures, Some(slug)).await?.pop())
    }

    async fn hardware(&self, slug: &HardwareSlug) -> StoreResult<Option<Hardware>> {
        hardware::find(&mut *reader(self).await?, slug).await
    }

    async fn known_hardware(&self, slug: &HardwareSlug) -> StoreResult<Option<KnownHardware>> {
        hardware::known(&mut *reader(self).await?, slug).await
    }

    async fn hardware_state(&self, slug: &HardwareSlug) -> StoreResult<Option<String>> {
        hardware::state(&mut *reader(self).await?, slug).await
    }

    async fn refresh_entries(&self) -> StoreResult<usize> {
        let mut tx = writer(self).await?;
        let done = match stale_entries::refresh_some(&mut *tx).await? {
            0 => judging::judge_some(&mut *tx).await?,
            done => done,
        };
        tx.commit().await?;
        Ok(done)
    }

    async fn stale_entries(&self) -> StoreResult<Vec<View>> {
        stale_entries::list(&mut *reader(self).await?).await
    }

    async fn stored_bytes(&self) -> StoreResult<u64> {
        upkeep::stored_bytes(&mut *reader(self).await?).await
    }

    async fn probe(&self) -> StoreResult<()> {
        let mut tx = writer(self).await?;
        upkeep::probe(&mut *tx).await?;
        Ok(tx.commit().await?)
    }

    async fn leaderboard(&self, slug: &HardwareSlug, query: &BoardQuery) -> StoreResult<Leaderboard> {
        board::leaderboard(&mut *snapshot(self).await?, &self.totals, slug, query).await
    }

    async fn problem_points(
        &self,
        slug: &HardwareSlug,
        filter: &ProblemFilter,
        cap: u32,
    ) -> StoreResult<Vec<ProblemPoint>> {
        problems::points(&mut *reader(self).await?, slug, filter, cap).await
    }

    async fn nearest_problems(
        &self,
        slug: &HardwareSlug,
        problem: &Problem,
        method: Method,
        limit: u32,
    ) -> StoreResult<Vec<NearestProblem>> {
        nearest::nearest(&mut *snapshot(self).await?, slug, problem, method, limit).await
    }

    async fn problem(&self, id: &ProblemId) -> StoreResult<Option<Problem>> {
        problems::find(&mut *reader(self).await?, id).await
    }

    async fn problem_views(&self, id: &ProblemId) -> StoreResult<Vec<ProblemView>> {
        problems::views(&mut *reader(self).await?, id).await
    }

    async fn view_solutions(&self, view: &View) -> StoreResult<StoredSolutions> {
        solutions::load(&mut *snapshot(self).await?, Selection::View(view)).await
    }

    async fn training_data(&self, slug: &HardwareSlug) -> StoreResult<TrainingData> {
        let mut tx = snapshot(self).await?;
        let solutions = solutions::load(&mut *tx, Selection::Hardware(slug)).await?;
        Ok(TrainingData { solutions, uploads: models::uploads_behind(&mut *tx, slug).await? })
    }

    async fn solution_sizes(&self, slug: &HardwareSlug) -> StoreResult<Vec<(i64, u64)>> {
        sizes::solutions(&mut *reader(self).await?, slug).await
    }

    async fn numbered_solutions(
        &self,
        slug: &HardwareSlug,
        numbers: RangeInclusive<i64>,
    ) -> StoreResult<StoredSolutions> {
        solutions::load(&mut *snapshot(self).await?, Selection::Numbered(slug, &numbers)).await
    }

    async fn method_sizes(&self, slug: &HardwareSlug) -> StoreResult<Vec<(Method, u64)>> {
        sizes::methods(&mut *reader(self).await?, slug).await
    }

    async fn problem_sizes(&self, slug: &HardwareSlug, method: Method) -> StoreResult<Vec<(ProblemId, u64)>> {
        sizes::problems(&mut *reader(self).await?, slug, method).await
    }

    async fn problems_solutions(
        &self,
        slug: &HardwareSlug,
        method: Method,
        problems: RangeInclusive<ProblemId>,
    ) -> StoreResult<StoredSolutions> {
        solutions::load(&mut *snapshot(self).await?, Selection::Problems(slug, method, &problems)).await
    }

    async fn board_entry(&self, view: &View) -> StoreResult<Option<BoardEntry>> {
        board_entries::find(&mut *reader(self).await?, view).await
    }

    async fn views(&self) -> StoreResult<Vec<View>> {
        board_entries::views(&mut *reader(self).await?).await
    }

    async fn add_shipped_model(
        &self,
        model: &ModelSummary,
        hardware: &Hardware,
        uploads: &[UploadId],
        now: Now,
    ) -> StoreResult<bool> {
        let mut tx = writer(self).await?;
        let added = publications::add_shipped(&mut *tx, model, hardware, uploads, now).await?;
        tx.commit().await?;
        Ok(added)
    }

    async fn models(&self, hardware: Option<&HardwareSlug>) -> StoreResult<Vec<ModelSummary>> {
        models::list(&mut *reader(self).await?, hardware).await
    }

    async fn model(&self, id: &ModelId) -> StoreResult<Option<ModelSummary>> {
        models::find(&mut *reader(self).await?, id).await
    }

    async fn enqueue(&self, job: &Job, account: Option<&AccountId>, now: Now) -> StoreResult<Queued> {
        let mut tx = writer(self).await?;
        let queued = jobs::enqueue(&mut *tx, job, account, now).await?;
        tx.commit().await?;
        Ok(queued)
    }

    async fn cancel_job(&self, id: &JobId, now: Now) -> StoreResult<Option<Job>> {
        let mut tx = writer(self).await?;
        let cancelled = jobs::cancel(&mut *tx, id, now).await?;
        tx.commit().await?;
        Ok(cancelled)
    }

    async fn jobs(&self, limit: u32) -> StoreResult<Vec<Job>> {
        jobs::newest(&mut *reader(self).await?, limit).await
    }

    async fn job(&self, id: &JobId) -> StoreResult<Option<Job>> {
        jobs::find(&mut *reader(self).await?, id).await
    }

    async fn job_events(&self, id: &JobId, after: u64) -> StoreResult<Vec<JobEvent>> {
        jobs::events(&mut *reader(self).await?, id, after).await
    }

    async fn claim_job(&self, now: Now) -> StoreResult<Option<Claim>> {
        let mut tx = writer(self).await?;
        let claim = jobs::claim(&mut *tx, now).await?;
        tx.commit().await?;
        Ok(claim)
    }

    async fn report(&self, claim: &Claim, now: Now, progress: Option<(f64, &str)>) -> StoreResult<bool> {
        let mut tx = writer(self).await?;
        let claimed = jobs::report(&mut *tx, claim, now, progress).await?;
        tx.commit().await?;
        Ok(claimed)
    }

    async fn finish_job(
        &self,
        claim: &Claim,
        now: Now,
        outcome: Result<&ModelId, &str>,
    ) -> StoreResult<bool> {
        let mut tx = writer(self).await?;
        let claimed = jobs::finish(&mut *tx, claim, now, outcome).await?;
        tx.commit().await?;
        Ok(claimed)
    }

    async fn postpone_job(&self, claim: &Claim, now: Now, reason: &str) -> StoreResult<bool> {
        let mut tx = writer(self).await?;
        let claimed = jobs::postpone(&mut *tx, claim, now, reason).await?;
        tx.commit().await?;
        Ok(claimed)
    }

    async fn release_job(&self, claim: &Claim) -> StoreResult<()> {
        let mut tx = writer(self).await?;
        jobs::release(&mut *tx, claim).await?;
        Ok(tx.commit().await?)
    }

    async fn recover_jobs(&self, now: Now) -> StoreResult<u64> {
        let mut tx = writer(self).await?;
        let recovered = jobs::recover(&mut *tx, now).await?;
        tx.commit().await?;
        Ok(recovered)
    }

    async fn close(&self) {
        self.readers.close().await;
        self.writers.close().await;
    }
}
