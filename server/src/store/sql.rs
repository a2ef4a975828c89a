//! The SQL, one copy for both databases. [`connection::Connection`] has the parts that differ.
//! `store::sqlite` and `store::postgres` implement it.

#[macro_use]
mod transaction;

mod accounts;
mod agents;
mod board;
mod board_entries;
mod checks;
pub(super) mod connection;
mod contribution_row;
mod contributions;
mod copies;
mod deviations;
mod entry_row;
mod fencing;
mod fields;
mod figures;
mod filter;
mod from_row;
mod hardware;
mod inserts;
mod jobs;
mod licences;
mod log;
mod mails;
mod models;
mod moderation;
mod nearest;
mod packs;
mod problems;
mod publications;
mod refresh;
mod remembered;
mod removal;
mod senders;
mod sizes;
mod snapshots;
mod solutions;
mod stale_entries;
mod standing;
pub(super) mod statement;
mod summaries;
mod survey;
mod to_fence;
mod training_marks;
mod unjudged;
mod upkeep;
mod uploads;
mod view_solutions;

use std::ops::RangeInclusive;
use std::time::Duration;

use async_trait::async_trait;
use diode_api::{
    HardwareSummary, Job, JobEvent, Leaderboard, ModelSummary, NearestProblem, ProblemFilter, ProblemPoint,
    ProblemView, Receipt, UploadLicence,
};
use diode_core::hardware::Hardware;
use diode_core::ids::{AccountId, Digest, HardwareSlug, JobId, ModelId, ProblemId, UploadId};
use diode_core::{Method, Problem};
use sqlx::pool::PoolConnection;
use sqlx::{Database, Pool, Transaction};

use super::error::StoreResult;
use super::interface::Store;
use super::types::{BoardQuery, Claim, KnownHardware, Made, NewUpload, Now, Queued, TrainingData, View};
use crate::blobs::BlobKind;
use crate::consensus::BoardEntry;
use crate::path_identity::PathIdentity;
use crate::solutions::StoredSolutions;
use board::{Counted, Totals};
use connection::{Connection, Lockable};
use remembered::Remembered;
use solutions::Selection;
use statement::Statement;
use summaries::Figures;

/// How long a request waits for a connection before the server asks the client to come back later.
pub(super) const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// A store in one of the two databases.
pub struct SqlStore<DB: Database> {
    /// The connections for queries that change nothing.
    pub(super) readers: Pool<DB>,
    /// The connections for transactions that write. May be the same pool as `readers`.
    pub(super) writers: Pool<DB>,
    /// The file of the database, if it is one file.
    place: Option<PathIdentity>,
    figures: Remembered<HardwareSlug, Figures>,
    totals: Remembered<Counted, Totals>,
    /// For each snapshot, the number of its uploads that no longer count.
    withdrawn: Remembered<i64, u64>,
}

impl<DB: Database> SqlStore<DB> {
    pub(super) fn new(readers: Pool<DB>, writers: Pool<DB>, place: Option<PathIdentity>) -> Self {
        Self {
            readers,
            writers,
            place,
            figures: Remembered::default(),
            totals: Remembered::default(),
            withdrawn: Remembered::default(),
        }
    }

    /// Fails if the database's file is no longer where it was.
    fn check_place(&self) -> StoreResult<()> {
        Ok(self.place.as_ref().map_or(Ok(()), PathIdentity::check).map_err(sqlx::Error::Io)?)
    }
}

/// A connection for a single query.
async fn reader<DB: Database>(store: &SqlStore<DB>) -> StoreResult<PoolConnection<DB>> {
    store.check_place()?;
    Ok(store.readers.acquire().await?)
}

/// A transaction for queries that must all see the same state.
async fn snapshot<DB>(store: &SqlStore<DB>) -> StoreResult<Transaction<'static, DB>>
where
    DB: Database<Connection: Connection>,
{
    store.check_place()?;
    Ok(store.readers.begin_with(DB::Connection::BEGIN_READ).await?)
}

/// A transaction that writes.
async fn writer<DB>(store: &SqlStore<DB>) -> StoreResult<Transaction<'static, DB>>
where
    DB: Database<Connection: Connection>,
{
    store.check_place()?;
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
        in_transaction!(self, tx => uploads::store(tx, upload))
    }

    async fn hold_file(&self, kind: BlobKind, digest: &Digest) -> StoreResult<Box<dyn Send>> {
        let mut tx = writer(self).await?;
        tx.claim(Lockable::File(kind, digest)).await?;
        Ok(Box::new(tx))
    }

    async fn add_sender(
        &self,
        upload: &UploadId,
        account: Option<&AccountId>,
        licence: &UploadLicence,
    ) -> StoreResult<bool> {
        in_transaction!(self, tx => senders::add(tx, upload, account, licence))
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

    async fn hardware_revision(&self, slug: &HardwareSlug) -> StoreResult<Option<i64>> {
        hardware::revision(&mut *reader(self).await?, slug).await
    }

    async fn refresh_entries(&self) -> StoreResult<usize> {
        in_transaction!(self, tx => refresh::refresh_or_judge(tx))
    }

    async fn stale_entries(&self) -> StoreResult<Vec<View>> {
        refresh::marked(&mut *reader(self).await?).await
    }

    async fn stored_bytes(&self) -> StoreResult<u64> {
        figures::stored_bytes(&mut *reader(self).await?).await
    }

    async fn probe(&self) -> StoreResult<()> {
        in_transaction!(self, tx => upkeep::probe(tx))
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
        unseen_models: Option<&[u8]>,
        now: Now,
    ) -> StoreResult<bool> {
        in_transaction!(self, tx => publications::add_shipped(tx, model, hardware, uploads, unseen_models, now))
    }

    async fn models(&self, hardware: Option<&HardwareSlug>, newest: u32) -> StoreResult<Vec<ModelSummary>> {
        models::list(&mut *reader(self).await?, hardware, newest).await
    }

    async fn model(&self, id: &ModelId) -> StoreResult<Option<ModelSummary>> {
        models::find(&mut *reader(self).await?, id).await
    }

    async fn enqueue(&self, job: &Job, account: Option<&AccountId>, now: Now) -> StoreResult<Queued> {
        in_transaction!(self, tx => jobs::enqueue(tx, job, account, now))
    }

    async fn cancel_job(&self, id: &JobId, now: Now) -> StoreResult<Option<Job>> {
        in_transaction!(self, tx => jobs::cancel(tx, id, now))
    }

    async fn job_owner(&self, id: &JobId) -> StoreResult<Option<AccountId>> {
        jobs::owner(&mut *reader(self).await?, id).await
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
        in_transaction!(self, tx => jobs::claim(tx, now))
    }

    async fn report(&self, claim: &Claim, now: Now, progress: Option<(f64, &str)>) -> StoreResult<bool> {
        in_transaction!(self, tx => jobs::report(tx, claim, now, progress))
    }

    async fn finish_job(&self, claim: &Claim, now: Now, outcome: Result<&Made, &str>) -> StoreResult<bool> {
        in_transaction!(self, tx => jobs::finish(tx, claim, now, outcome))
    }

    async fn postpone_job(&self, claim: &Claim, now: Now, reason: &str) -> StoreResult<bool> {
        in_transaction!(self, tx => jobs::postpone(tx, claim, now, reason))
    }

    async fn release_job(&self, claim: &Claim) -> StoreResult<()> {
        in_transaction!(self, tx => jobs::release(tx, claim))
    }

    async fn recover_jobs(&self, now: Now) -> StoreResult<u64> {
        in_transaction!(self, tx => jobs::recover(tx, now))
    }

    async fn close(&self) {
        self.readers.close().await;
        self.writers.close().await;
    }
}
