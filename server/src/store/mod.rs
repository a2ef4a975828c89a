//! Everything the server remembers, behind one trait in domain words.
//!
//! [`SqliteStore`] and [`PostgresStore`] answer alike; one story test drives both.

mod batches;
mod board;
mod config_lists;
mod cursor;
mod error;
mod from_row;
mod migrations;
mod postgres;
mod rows;
mod selection;
mod sqlite;
mod summaries;
mod types;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use diode_core::Problem;
use diode_core::api::{
    HardwareSummary, Job, JobEvent, LeaderboardRow, ModelSummary, Page, ProblemPoint, ProblemView, Receipt,
};
use diode_core::hardware::Hardware;
use diode_core::ids::{HardwareSlug, JobId, ModelId, ProblemId, UploadId};

pub use cursor::Cursor;
pub use error::{StoreError, StoreResult};
pub use postgres::PostgresStore;
pub use sqlite::SqliteStore;
pub use types::{
    BoardQuery, Claim, Entry, NewSolution, NewUpload, Now, PackedConfigs, PackedSolution, PackedSolutions,
    View,
};

/// How long a request waits for a connection before it is told to come back.
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(5);

/// A worker that has not said a word for this long is taken for dead.
pub const LEASE: Duration = Duration::from_secs(15);

/// A job whose workers died this often is given up: it may be what kills them.
pub const MAX_ATTEMPTS: u64 = 3;

/// The database, in the words of the domain. Every method is one transaction.
#[async_trait]
pub trait Store: Send + Sync {
    /// Fails if the database does not answer.
    async fn ping(&self) -> StoreResult<()>;

    /// What was said when these bytes were stored; `None` if they never were.
    async fn receipt(&self, upload: &UploadId) -> StoreResult<Option<Receipt>>;

    /// Stores an upload with all it brings and brings the entries of the views
    /// it touches up to date. Once this returns, the rows are durable.
    ///
    /// Bytes that are there already change nothing, also when two calls race;
    /// the receipt then has `already_stored` set. Solutions whose digest is
    /// known are counted as duplicates and left out.
    async fn store_upload(&self, upload: &NewUpload) -> StoreResult<Receipt>;

    /// All hardware that data or models speak of, by slug. Empty on a fresh database.
    async fn hardware_list(&self) -> StoreResult<Vec<HardwareSummary>>;

    /// One kind of hardware; `None` if nothing speaks of it.
    async fn hardware(&self, slug: &HardwareSlug) -> StoreResult<Option<HardwareSummary>>;

    /// One page of the entries of a hardware. Unknown hardware has an empty board.
    /// Pages follow each other without gaps or repeats while nothing is uploaded;
    /// entries without the value sorted by come last in either order.
    async fn leaderboard(&self, slug: &HardwareSlug, query: &BoardQuery)
    -> StoreResult<Page<LeaderboardRow>>;

    /// One point per problem of a hardware, by the method with the most timings,
    /// at most `cap` of them: an even sample where there are more.
    async fn problem_points(&self, slug: &HardwareSlug, cap: u32) -> StoreResult<Vec<ProblemPoint>>;

    /// A problem; `None` if nothing was ever measured for it.
    async fn problem(&self, id: &ProblemId) -> StoreResult<Option<Problem>>;

    /// The ways in which a problem was measured, sorted. Empty for an unknown problem.
    async fn problem_views(&self, id: &ProblemId) -> StoreResult<Vec<ProblemView>>;

    /// The solutions of one view. Empty if there are none.
    async fn view_solutions(&self, view: &View) -> StoreResult<PackedSolutions>;

    /// Every solution of a hardware. Empty if there are none.
    async fn hardware_solutions(&self, slug: &HardwareSlug) -> StoreResult<PackedSolutions>;

    /// What leaderboards say of a view; `None` if no config of it has a time.
    async fn entry(&self, view: &View) -> StoreResult<Option<Entry>>;

    /// Every view that has a solution or an entry, sorted; what verification walks.
    async fn views(&self) -> StoreResult<Vec<View>>;

    /// Makes a model available; `false` if it was already.
    async fn add_model(&self, model: &ModelSummary, hardware: &Hardware) -> StoreResult<bool>;

    /// All models, or those of one hardware, newest first.
    async fn models(&self, hardware: Option<&HardwareSlug>) -> StoreResult<Vec<ModelSummary>>;

    /// One model; `None` if there is none by this id.
    async fn model(&self, id: &ModelId) -> StoreResult<Option<ModelSummary>>;

    /// Puts a job at the end of the queue. The same request made at the same
    /// instant is the same job and is queued once.
    async fn enqueue(&self, job: &Job) -> StoreResult<()>;

    /// The newest jobs, newest first.
    async fn jobs(&self, limit: u32) -> StoreResult<Vec<Job>>;

    /// One job; `None` if there is none by this id.
    async fn job(&self, id: &JobId) -> StoreResult<Option<Job>>;

    /// The events of a job with a number above `seq`, in order.
    async fn job_events(&self, id: &JobId, after: u64) -> StoreResult<Vec<JobEvent>>;

    /// Takes the oldest queued job for the caller; `None` if the queue is empty.
    /// No two callers get the same job while the lease of the first is kept up.
    async fn claim_job(&self, now: Now) -> StoreResult<Option<Claim>>;

    /// Says that the job is being worked on, and optionally how far it is.
    /// `false` if the claim has been lost, and the work should stop.
    async fn report(&self, claim: &Claim, now: Now, progress: Option<(f64, &str)>) -> StoreResult<bool>;

    /// Ends a job, with the model it made or what it failed of. `false` if the
    /// claim had been lost; then nothing is recorded.
    async fn finish_job(&self, claim: &Claim, now: Now, outcome: Result<&ModelId, &str>)
    -> StoreResult<bool>;

    /// Gives a job back unfinished, for instance because this process ends.
    async fn release_job(&self, claim: &Claim) -> StoreResult<()>;

    /// Queues again the running jobs whose worker is silent, and fails those
    /// that outlived [`MAX_ATTEMPTS`] workers. Says how many there were.
    async fn recover_jobs(&self, now: Now) -> StoreResult<u64>;

    /// Waits for running statements and closes every connection.
    async fn close(&self);
}

/// Opens the database that a URL names and brings its tables up to date:
/// `sqlite:FILE` or `postgres://…`.
pub async fn open(url: &str) -> StoreResult<Arc<dyn Store>> {
    if url.starts_with("postgres:") || url.starts_with("postgresql:") {
        Ok(Arc::new(PostgresStore::open(url).await?))
    } else {
        Ok(Arc::new(SqliteStore::open(url).await?))
    }
}
