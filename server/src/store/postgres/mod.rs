//! The database for when one machine is no longer enough: many servers and
//! workers share it.

mod hardware;
mod jobs;
mod models;
mod problems;
mod uploads;

use std::str::FromStr;

use async_trait::async_trait;
use diode_core::Problem;
use diode_core::api::{
    HardwareSummary, Job, JobEvent, LeaderboardRow, ModelSummary, Page, ProblemPoint, ProblemView, Receipt,
};
use diode_core::hardware::Hardware;
use diode_core::ids::{HardwareSlug, JobId, ModelId, ProblemId, UploadId};
use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};

use super::{
    ACQUIRE_TIMEOUT, BoardQuery, Claim, Entry, NewUpload, Now, PackedSolutions, Store, StoreError,
    StoreResult, View, migrations,
};

/// Begins a transaction whose queries must all see the same state.
const BEGIN_READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// A default Postgres admits 100 connections in all; several servers share them.
const CONNECTIONS: u32 = 16;

/// Everything in one Postgres database.
pub struct PostgresStore {
    pool: PgPool,
}

impl PostgresStore {
    /// Connects to the database of a URL like `postgres://user@host/diode`, and
    /// migrates it.
    pub async fn open(url: &str) -> StoreResult<Self> {
        // The URL may hold a password, so no message repeats it.
        let options = PgConnectOptions::from_str(url).map_err(|error| StoreError::Url {
            url: "the Postgres URL".to_owned(),
            reason: error.to_string(),
        })?;
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS)
            .acquire_timeout(ACQUIRE_TIMEOUT)
            .connect_with(options)
            .await?;
        migrations::postgres().run(&pool).await?;
        Ok(Self { pool })
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn ping(&self) -> StoreResult<()> {
        sqlx::query("SELECT 1").execute(&self.pool).await?;
        Ok(())
    }

    async fn receipt(&self, upload: &UploadId) -> StoreResult<Option<Receipt>> {
        uploads::receipt(&mut *self.pool.acquire().await?, upload).await
    }

    async fn store_upload(&self, upload: &NewUpload) -> StoreResult<Receipt> {
        uploads::store(&self.pool, upload).await
    }

    async fn hardware_list(&self) -> StoreResult<Vec<HardwareSummary>> {
        hardware::summaries(&self.pool, None).await
    }

    async fn hardware(&self, slug: &HardwareSlug) -> StoreResult<Option<HardwareSummary>> {
        Ok(hardware::summaries(&self.pool, Some(slug)).await?.pop())
    }

    async fn leaderboard(
        &self,
        slug: &HardwareSlug,
        query: &BoardQuery,
    ) -> StoreResult<Page<LeaderboardRow>> {
        hardware::leaderboard(&self.pool, slug, query).await
    }

    async fn problem_points(&self, slug: &HardwareSlug, cap: u32) -> StoreResult<Vec<ProblemPoint>> {
        hardware::points(&self.pool, slug, cap).await
    }

    async fn problem(&self, id: &ProblemId) -> StoreResult<Option<Problem>> {
        problems::problem(&self.pool, id).await
    }

    async fn problem_views(&self, id: &ProblemId) -> StoreResult<Vec<ProblemView>> {
        problems::problem_views(&self.pool, id).await
    }

    async fn view_solutions(&self, view: &View) -> StoreResult<PackedSolutions> {
        problems::view_solutions(&self.pool, view).await
    }

    async fn hardware_solutions(&self, slug: &HardwareSlug) -> StoreResult<PackedSolutions> {
        problems::hardware_solutions(&self.pool, slug).await
    }

    async fn entry(&self, view: &View) -> StoreResult<Option<Entry>> {
        problems::entry(&self.pool, view).await
    }

    async fn views(&self) -> StoreResult<Vec<View>> {
        problems::views(&self.pool).await
    }

    async fn add_model(&self, model: &ModelSummary, hardware: &Hardware) -> StoreResult<bool> {
        models::add(&self.pool, model, hardware).await
    }

    async fn models(&self, hardware: Option<&HardwareSlug>) -> StoreResult<Vec<ModelSummary>> {
        models::list(&self.pool, hardware).await
    }

    async fn model(&self, id: &ModelId) -> StoreResult<Option<ModelSummary>> {
        models::find(&self.pool, id).await
    }

    async fn enqueue(&self, job: &Job) -> StoreResult<()> {
        jobs::enqueue(&self.pool, job).await
    }

    async fn jobs(&self, limit: u32) -> StoreResult<Vec<Job>> {
        jobs::newest(&self.pool, limit).await
    }

    async fn job(&self, id: &JobId) -> StoreResult<Option<Job>> {
        jobs::find(&self.pool, id).await
    }

    async fn job_events(&self, id: &JobId, after: u64) -> StoreResult<Vec<JobEvent>> {
        jobs::events(&self.pool, id, after).await
    }

    async fn claim_job(&self, now: Now) -> StoreResult<Option<Claim>> {
        jobs::claim(&self.pool, now).await
    }

    async fn report(&self, claim: &Claim, now: Now, progress: Option<(f64, &str)>) -> StoreResult<bool> {
        jobs::report(&self.pool, claim, now, progress).await
    }

    async fn finish_job(
        &self,
        claim: &Claim,
        now: Now,
        outcome: Result<&ModelId, &str>,
    ) -> StoreResult<bool> {
        jobs::finish(&self.pool, claim, now, outcome).await
    }

    async fn release_job(&self, claim: &Claim) -> StoreResult<()> {
        jobs::release(&self.pool, claim).await
    }

    async fn recover_jobs(&self, now: Now) -> StoreResult<u64> {
        jobs::recover(&self.pool, now).await
    }

    async fn close(&self) {
        self.pool.close().await;
    }
}
