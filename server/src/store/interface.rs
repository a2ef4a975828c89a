//! What the rest of the server may ask of the database.

use std::ops::RangeInclusive;

use async_trait::async_trait;
use diode_api::{
    HardwareSummary, Job, JobEvent, Leaderboard, ModelSummary, NearestProblem, ProblemFilter, ProblemPoint,
    ProblemView, Receipt, UploadLicence,
};
use diode_core::hardware::Hardware;
use diode_core::ids::{AccountId, Digest, HardwareSlug, JobId, ModelId, ProblemId, UploadId};
use diode_core::{Method, Problem};

use super::accounts::AccountStore;
use super::agents::AgentStore;
use super::contributions::ContributionStore;
use super::error::StoreResult;
use super::identities::IdentityStore;
use super::mails::MailStore;
use super::moderation::ModerationStore;
use super::packs::PackStore;
use super::publications::PublicationStore;
use super::snapshots::SnapshotStore;
use super::survey::SurveyStore;
use super::types::{BoardQuery, Claim, KnownHardware, Made, NewUpload, Now, Queued, TrainingData, View};
use super::upkeep::UpkeepStore;
use crate::blobs::BlobKind;
use crate::consensus::BoardEntry;
use crate::solutions::StoredSolutions;

/// The database. Every method is one transaction.
#[async_trait]
pub trait Store:
    AccountStore
    + AgentStore
    + ContributionStore
    + IdentityStore
    + MailStore
    + ModerationStore
    + PackStore
    + PublicationStore
    + SnapshotStore
    + SurveyStore
    + UpkeepStore
{
    /// Fails if the database does not answer.
    async fn ping(&self) -> StoreResult<()>;

    /// The receipt of a stored upload; `None` if there is none.
    async fn receipt(&self, upload: &UploadId) -> StoreResult<Option<Receipt>>;

    /// Stores an upload. Recomputes some of the board entries that it changes, and leaves the others for
    /// [`Store::refresh_entries`]: an upload must not cost more because the database is larger. Once this returns,
    /// the rows are durable.
    ///
    /// Bytes that are stored already change nothing, even if two calls race. The receipt then has `already_stored`
    /// set. Solutions with a known digest are counted as duplicates and left out.
    async fn store_upload(&self, upload: &NewUpload) -> StoreResult<Receipt>;

    /// Until the returned value is dropped, no upload or contributed model with this file is added.
    async fn hold_file(&self, kind: BlobKind, digest: &Digest) -> StoreResult<Box<dyn Send>>;

    /// Stores that the bytes of a stored upload were sent again. Another account becomes a second sender, so that
    /// the upload stays if the first sender deletes it. If the same sender has since agreed to newer terms, these
    /// count. `false` if the upload no longer exists.
    async fn add_sender(
        &self,
        upload: &UploadId,
        account: Option<&AccountId>,
        licence: &UploadLicence,
    ) -> StoreResult<bool>;

    /// Recomputes some of the stale board entries, or judges some uploads anew whose deviations have changed.
    /// Returns how many; 0 if none was left. Several processes may call it at once.
    async fn refresh_entries(&self) -> StoreResult<usize>;

    /// The stale views.
    async fn stale_entries(&self) -> StoreResult<Vec<View>>;

    /// All hardware that has data or models, in the order of slugs. Empty on a new database.
    async fn hardware_list(&self) -> StoreResult<Vec<HardwareSummary>>;

    /// One kind of hardware with its figures; `None` if there are neither data nor models for it.
    async fn hardware_summary(&self, slug: &HardwareSlug) -> StoreResult<Option<HardwareSummary>>;

    /// The description of a hardware. Reads only one row.
    async fn hardware(&self, slug: &HardwareSlug) -> StoreResult<Option<Hardware>>;

    /// The description of a hardware, and whether an administrator has confirmed its facts.
    async fn known_hardware(&self, slug: &HardwareSlug) -> StoreResult<Option<KnownHardware>>;

    /// A text that changes when the timings of a hardware change. It is the same on another server with the same
    /// timings. `None` for unknown hardware.
    async fn hardware_state(&self, slug: &HardwareSlug) -> StoreResult<Option<String>>;

    /// A number that grows with each change of the hardware's entries. `None` for unknown hardware.
    async fn hardware_revision(&self, slug: &HardwareSlug) -> StoreResult<Option<i64>>;

    /// One page of the entries of a hardware. Unknown hardware has an empty board. As long as nothing is uploaded,
    /// the pages have no gaps or repeats. Entries without the sort value come last in either order.
    async fn leaderboard(&self, slug: &HardwareSlug, query: &BoardQuery) -> StoreResult<Leaderboard>;

    /// One point for each problem that passes a filter and has a rate, by the method with the most timings. If more
    /// than `cap` problems pass, returns an even sample of them.
    async fn problem_points(
        &self,
        slug: &HardwareSlug,
        filter: &ProblemFilter,
        cap: u32,
    ) -> StoreResult<Vec<ProblemPoint>>;

    /// The measured problems of a hardware that are most like `problem`, by one method, the nearest first. Includes
    /// only problems that the same kernels can run. If there are many, compares only the problems with the nearest
    /// M.
    async fn nearest_problems(
        &self,
        slug: &HardwareSlug,
        problem: &Problem,
        method: Method,
        limit: u32,
    ) -> StoreResult<Vec<NearestProblem>>;

    /// A problem; `None` if nothing was ever measured for it.
    async fn problem(&self, id: &ProblemId) -> StoreResult<Option<Problem>>;

    /// The hardware and methods by which a problem was measured, sorted. Empty for an unknown problem.
    async fn problem_views(&self, id: &ProblemId) -> StoreResult<Vec<ProblemView>>;

    /// The solutions of one view. Empty if there are none.
    async fn view_solutions(&self, view: &View) -> StoreResult<StoredSolutions>;

    /// Every solution of a hardware that counts. Empty if there are none.
    async fn training_data(&self, slug: &HardwareSlug) -> StoreResult<TrainingData>;

    /// How many timings and failures each solution of a hardware has. Each solution is given by its number, in the
    /// order in which they arrived.
    async fn solution_sizes(&self, slug: &HardwareSlug) -> StoreResult<Vec<(i64, u64)>>;

    /// The solutions of a hardware with these numbers.
    async fn numbered_solutions(
        &self,
        slug: &HardwareSlug,
        numbers: RangeInclusive<i64>,
    ) -> StoreResult<StoredSolutions>;

    /// How many timings each method of a hardware has.
    async fn method_sizes(&self, slug: &HardwareSlug) -> StoreResult<Vec<(Method, u64)>>;

    /// How many timings each problem of a hardware has by one method, in the order of ids.
    async fn problem_sizes(&self, slug: &HardwareSlug, method: Method) -> StoreResult<Vec<(ProblemId, u64)>>;

    /// The solutions of a hardware by one method, for the problems between two ids.
    async fn problems_solutions(
        &self,
        slug: &HardwareSlug,
        method: Method,
        problems: RangeInclusive<ProblemId>,
    ) -> StoreResult<StoredSolutions>;

    /// The board entry of a view; `None` if no config of the view has a time.
    async fn board_entry(&self, view: &View) -> StoreResult<Option<BoardEntry>>;

    /// Every view that has a solution or an entry, sorted; for verification.
    async fn views(&self) -> StoreResult<Vec<View>>;

    /// Adds a model that is released with Diode. Publishes it unless the published model was trained on this server
    /// or is pinned. `false` if the model existed already.
    ///
    /// Keeps the models of its cross-validation, as [`PublicationStore::add_judged_model`] does. If the model
    /// existed and is published, adds the models of its cross-validation where they are missing.
    async fn add_shipped_model(
        &self,
        model: &ModelSummary,
        hardware: &Hardware,
        uploads: &[UploadId],
        unseen_models: Option<&[u8]>,
        now: Now,
    ) -> StoreResult<bool>;

    /// The newest models and all published models, of one hardware or of all hardware, the newest first.
    async fn models(&self, hardware: Option<&HardwareSlug>, newest: u32) -> StoreResult<Vec<ModelSummary>>;

    /// One model; `None` if there is none with this id.
    async fn model(&self, id: &ModelId) -> StoreResult<Option<ModelSummary>>;

    /// Puts a job at the end of the queue, unless too many wait. The same request at the same instant is the same
    /// job, and is queued once.
    async fn enqueue(&self, job: &Job, account: Option<&AccountId>, now: Now) -> StoreResult<Queued>;

    /// Ends a job that waits or runs, and returns it. A running job's worker stops at its next report. `None` if the
    /// job has ended, or there is none with this id.
    async fn cancel_job(&self, id: &JobId, now: Now) -> StoreResult<Option<Job>>;

    /// The account that asked for a job. `None` if the server or an anonymous caller asked, or the account was
    /// deleted.
    async fn job_owner(&self, id: &JobId) -> StoreResult<Option<AccountId>>;

    /// The newest jobs, newest first.
    async fn jobs(&self, limit: u32) -> StoreResult<Vec<Job>>;

    /// One job; `None` if there is none with this id.
    async fn job(&self, id: &JobId) -> StoreResult<Option<Job>>;

    /// The events of a job with a number above `after`, in order.
    async fn job_events(&self, id: &JobId, after: u64) -> StoreResult<Vec<JobEvent>>;

    /// Gives the oldest queued job to the caller; `None` if the queue is empty. No other caller gets the same job as
    /// long as the claim is renewed.
    async fn claim_job(&self, now: Now) -> StoreResult<Option<Claim>>;

    /// Renews the claim of a job, and stores its progress, if given. `false` if the claim was lost; then the caller
    /// must stop.
    async fn report(&self, claim: &Claim, now: Now, progress: Option<(f64, &str)>) -> StoreResult<bool>;

    /// Ends a job, with what it made or the reason of its failure. `false` if the claim was lost; then nothing is
    /// stored.
    async fn finish_job(&self, claim: &Claim, now: Now, outcome: Result<&Made, &str>) -> StoreResult<bool>;

    /// Queues a job again, to be tried after a while, because it failed for a reason that may pass. After
    /// [`MAX_ATTEMPTS`](super::MAX_ATTEMPTS) attempts the job counts as failed. `false` if the claim was lost.
    async fn postpone_job(&self, claim: &Claim, now: Now, reason: &str) -> StoreResult<bool>;

    /// Gives a job back unfinished, for instance because this process ends. Another worker can then claim the job.
    async fn release_job(&self, claim: &Claim) -> StoreResult<()>;

    /// Queues running jobs again whose claim has ended. Fails a job whose claim has ended
    /// [`MAX_ATTEMPTS`](super::MAX_ATTEMPTS) times. Returns how many jobs it changed.
    async fn recover_jobs(&self, now: Now) -> StoreResult<u64>;

    /// How many bytes all files have that people sent: uploads and contributed models.
    async fn stored_bytes(&self) -> StoreResult<u64>;

    /// Fails if the database cannot be written to.
    async fn probe(&self) -> StoreResult<()>;

    /// Waits for running statements and closes every connection.
    async fn close(&self);
}
