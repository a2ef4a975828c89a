//! The embedded database: one file, one writer, many readers.

mod hardware;
mod jobs;
mod models;
mod problems;
mod uploads;

use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use diode_core::Problem;
use diode_core::api::{
    HardwareSummary, Job, JobEvent, LeaderboardRow, ModelSummary, Page, ProblemPoint, ProblemView, Receipt,
};
use diode_core::hardware::Hardware;
use diode_core::ids::{HardwareSlug, JobId, ModelId, ProblemId, UploadId};
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

use super::{
    ACQUIRE_TIMEOUT, BoardQuery, Claim, Entry, NewUpload, Now, PackedSolutions, Store, StoreError,
    StoreResult, View, migrations,
};

/// Begins a transaction that will write: taking the lock at once keeps two
/// processes on one file from both reading first and then deadlocking.
const BEGIN_WRITE: &str = "BEGIN IMMEDIATE";

/// How long to wait for another process that writes to the same file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// Readers never block each other; more than there are cores to run them is no gain.
const READERS: u32 = 8;

const EXPECTED: &str = "expected sqlite:FILE or postgres://USER@HOST/DATABASE";

/// Everything in one SQLite file.
///
/// Writes queue up on a single connection, so they never meet `SQLITE_BUSY`
/// within this process; readers see the last committed state meanwhile (WAL).
pub struct SqliteStore {
    writer: SqlitePool,
    readers: SqlitePool,
}

impl SqliteStore {
    /// Opens or creates the file of a URL like `sqlite:diode.db`, and migrates it.
    pub async fn open(url: &str) -> StoreResult<Self> {
        let refuse = |reason: String| StoreError::Url { url: url.to_owned(), reason };
        if !url.starts_with("sqlite:") {
            // Whatever it is, it may hold a password; only its scheme is repeated.
            let scheme = url.split(':').next().unwrap_or_default();
            return Err(StoreError::Url { url: format!("{scheme}:…"), reason: EXPECTED.to_owned() });
        }
        if url.contains(":memory:") || url.contains("mode=memory") {
            return Err(refuse(format!("{EXPECTED}; data in memory is not durable")));
        }
        let options = SqliteConnectOptions::from_str(url)
            .map_err(|error| refuse(error.to_string()))?
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            // A receipt promises that the data survives a power cut.
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(BUSY_TIMEOUT);
        let writer = SqlitePoolOptions::new()
            .max_connections(1)
            .acquire_timeout(ACQUIRE_TIMEOUT.max(BUSY_TIMEOUT))
            .connect_with(options.clone())
            .await?;
        migrations::sqlite().run(&writer).await?;
        let readers = SqlitePoolOptions::new()
            .max_connections(READERS)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .connect_with(options.read_only(true).create_if_missing(false))
            .await?;
        Ok(Self { writer, readers })
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn ping(&self) -> StoreResult<()> {
        sqlx::query("SELECT 1").execute(&self.readers).await?;
        Ok(())
    }

    async fn receipt(&self, upload: &UploadId) -> StoreResult<Option<Receipt>> {
        uploads::receipt(&mut *self.readers.acquire().await?, upload).await
    }

    async fn store_upload(&self, upload: &NewUpload) -> StoreResult<Receipt> {
        uploads::store(&self.writer, upload).await
    }

    async fn hardware_list(&self) -> StoreResult<Vec<HardwareSummary>> {
        hardware::summaries(&self.readers, None).await
    }

    async fn hardware(&self, slug: &HardwareSlug) -> StoreResult<Option<HardwareSummary>> {
        Ok(hardware::summaries(&self.readers, Some(slug)).await?.pop())
    }

    async fn leaderboard(
        &self,
        slug: &HardwareSlug,
        query: &BoardQuery,
    ) -> StoreResult<Page<LeaderboardRow>> {
        hardware::leaderboard(&self.readers, slug, query).await
    }

    async fn problem_points(&self, slug: &HardwareSlug, cap: u32) -> StoreResult<Vec<ProblemPoint>> {
        hardware::points(&self.readers, slug, cap).await
    }

    async fn problem(&self, id: &ProblemId) -> StoreResult<Option<Problem>> {
        problems::problem(&self.readers, id).await
    }

    async fn problem_views(&self, id: &ProblemId) -> StoreResult<Vec<ProblemView>> {
        problems::problem_views(&self.readers, id).await
    }

    async fn view_solutions(&self, view: &View) -> StoreResult<PackedSolutions> {
        problems::view_solutions(&self.readers, view).await
    }

    async fn hardware_solutions(&self, slug: &HardwareSlug) -> StoreResult<PackedSolutions> {
        problems::hardware_solutions(&self.readers, slug).await
    }

    async fn entry(&self, view: &View) -> StoreResult<Option<Entry>> {
        problems::entry(&self.readers, view).await
    }

    async fn views(&self) -> StoreResult<Vec<View>> {
        problems::views(&self.readers).await
    }

    async fn add_model(&self, model: &ModelSummary, hardware: &Hardware) -> StoreResult<bool> {
        models::add(&self.writer, model, hardware).await
    }

    async fn models(&self, hardware: Option<&HardwareSlug>) -> StoreResult<Vec<ModelSummary>> {
        models::list(&self.readers, hardware).await
    }

    async fn model(&self, id: &ModelId) -> StoreResult<Option<ModelSummary>> {
        models::find(&self.readers, id).await
    }

    async fn enqueue(&self, job: &Job) -> StoreResult<()> {
        jobs::enqueue(&self.writer, job).await
    }

    async fn jobs(&self, limit: u32) -> StoreResult<Vec<Job>> {
        jobs::newest(&self.readers, limit).await
    }

    async fn job(&self, id: &JobId) -> StoreResult<Option<Job>> {
        jobs::find(&self.readers, id).await
    }

    async fn job_events(&self, id: &JobId, after: u64) -> StoreResult<Vec<JobEvent>> {
        jobs::events(&self.readers, id, after).await
    }

    async fn claim_job(&self, now: Now) -> StoreResult<Option<Claim>> {
        jobs::claim(&self.writer, now).await
    }

    async fn report(&self, claim: &Claim, now: Now, progress: Option<(f64, &str)>) -> StoreResult<bool> {
        jobs::report(&self.writer, claim, now, progress).await
    }

    async fn finish_job(
        &self,
        claim: &Claim,
        now: Now,
        outcome: Result<&ModelId, &str>,
    ) -> StoreResult<bool> {
        jobs::finish(&self.writer, claim, now, outcome).await
    }

    async fn release_job(&self, claim: &Claim) -> StoreResult<()> {
        jobs::release(&self.writer, claim).await
    }

    async fn recover_jobs(&self, now: Now) -> StoreResult<u64> {
        jobs::recover(&self.writer, now).await
    }

    async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }
}
