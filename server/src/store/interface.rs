//! The database in domain words: what the rest of the server may ask of it.

use std::ops::RangeInclusive;

use async_trait::async_trait;
use diode_core::api::{
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

/// What the database keeps. Every method is one transaction.
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

    /// The receipt of an upload that is stored; `None` if it is not.
    async fn receipt(&self, upload: &UploadId) -> StoreResult<Option<Receipt>>;

    /// Stores an upload and recomputes board entries of the views that it adds to,
    /// the others later ([`Store::refresh_entries`]): what an upload costs must not
    /// grow with what is there. Once this returns, the rows are durable.
    ///
    /// Bytes that are there already change nothing, also when two calls race;
    /// the receipt then has `already_stored` set. Solutions whose digest is
    /// known are counted as duplicates and left out.
    async fn store_upload(&self, upload: &NewUpload) -> StoreResult<Receipt>;

    /// Until what this returns is dropped, nobody adds an upload or a contributed model of this file.
    async fn hold_file(&self, kind: BlobKind, digest: &Digest) -> StoreResult<Box<dyn Send>>;

    /// Notes that the bytes of a stored upload were sent again. Another account is noted, so that they stay when
    /// whoever was first takes them away. If the same sender has agreed to newer terms since, these hold. `false` if
    /// there is no such upload any more.
    async fn add_sender(
        &self,
        upload: &UploadId,
        account: Option<&AccountId>,
        licence: &UploadLicence,
    ) -> StoreResult<bool>;

    /// Recomputes some of the board entries that do not count all solutions yet, or judges uploads anew
    /// whose deviations have changed; returns how many, 0 once none is left. Any number of processes may
    /// call it.
    async fn refresh_entries(&self) -> StoreResult<usize>;

    /// The views whose entry does not count all of their solutions yet.
    async fn stale_entries(&self) -> StoreResult<Vec<View>>;

    /// All hardware that there are data or models for, by slug. Empty on a fresh database.
    async fn hardware_list(&self) -> StoreResult<Vec<HardwareSummary>>;

    /// One kind of hardware with its figures; `None` if there are neither data nor
    /// models for it.
    async fn hardware_summary(&self, slug: &HardwareSlug) -> StoreResult<Option<HardwareSummary>>;

    /// The description alone, one row.
    async fn hardware(&self, slug: &HardwareSlug) -> StoreResult<Option<Hardware>>;

    /// The same, and whether an administrator has confirmed it.
    async fn known_hardware(&self, slug: &HardwareSlug) -> StoreResult<Option<KnownHardware>>;

    /// A text that stays the same as long as the timings of a hardware do, also on
    /// another server. `None` for unknown hardware.
    async fn hardware_state(&self, slug: &HardwareSlug) -> StoreResult<Option<String>>;

    /// A number that grows with each change of the hardware's entries. `None` if it is unknown.
    async fn hardware_revision(&self, slug: &HardwareSlug) -> StoreResult<Option<i64>>;

    /// One page of the entries of a hardware. Unknown hardware has an empty board.
    /// Pages follow each other without gaps or repeats while nothing is uploaded;
    /// entries without the value sorted by come last in either order.
    async fn leaderboard(&self, slug: &HardwareSlug, query: &BoardQuery) -> StoreResult<Leaderboard>;

    /// One point per problem that a filter leaves and that has a rate, by the method with the most
    /// timings, at most `cap` of them: an even sample where there are more.
    async fn problem_points(
        &self,
        slug: &HardwareSlug,
        filter: &ProblemFilter,
        cap: u32,
    ) -> StoreResult<Vec<ProblemPoint>>;

    /// The measured problems of a hardware that are most like one, by one method, the nearest first; only
    /// such as run the same kernels. Of many, those are looked through whose M is nearest.
    async fn nearest_problems(
        &self,
        slug: &HardwareSlug,
        problem: &Problem,
        method: Method,
        limit: u32,
    ) -> StoreResult<Vec<NearestProblem>>;

    /// A problem; `None` if nothing was ever measured for it.
    async fn problem(&self, id: &ProblemId) -> StoreResult<Option<Problem>>;

    /// The ways in which a problem was measured, sorted. Empty for an unknown problem.
    async fn problem_views(&self, id: &ProblemId) -> StoreResult<Vec<ProblemView>>;

    /// The solutions of one view. Empty if there are none.
    async fn view_solutions(&self, view: &View) -> StoreResult<StoredSolutions>;

    /// Every solution of a hardware that counts. Empty if there are none.
    async fn training_data(&self, slug: &HardwareSlug) -> StoreResult<TrainingData>;

    /// How many timings and failures each solution of a hardware has, by number, in
    /// the order in which they arrived.
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

    /// The solutions of a hardware by one method, of the problems between two ids.
    async fn problems_solutions(
        &self,
        slug: &HardwareSlug,
        method: Method,
        problems: RangeInclusive<ProblemId>,
    ) -> StoreResult<StoredSolutions>;

    /// The board entry of a view; `None` if no config of it has a time.
    async fn board_entry(&self, view: &View) -> StoreResult<Option<BoardEntry>>;

    /// Every view that has a solution or an entry, sorted; for verification.
    async fn views(&self) -> StoreResult<Vec<View>>;

    /// Makes a model known that is released with Diode, and publishes it unless one is published that was
    /// trained here or is pinned. `false` if it was there already.
    async fn add_shipped_model(
        &self,
        model: &ModelSummary,
        hardware: &Hardware,
        uploads: &[UploadId],
        now: Now,
    ) -> StoreResult<bool>;

    /// The newest models, and all that are published; newest first. Of one hardware, or of all.
    async fn models(&self, hardware: Option<&HardwareSlug>, newest: u32) -> StoreResult<Vec<ModelSummary>>;

    /// One model; `None` if there is none by this id.
    async fn model(&self, id: &ModelId) -> StoreResult<Option<ModelSummary>>;

    /// Puts a job at the end of the queue, unless too many wait. The same request made at the same instant is
    /// the same job and is queued once.
    async fn enqueue(&self, job: &Job, account: Option<&AccountId>, now: Now) -> StoreResult<Queued>;

    /// Ends a job that waits or runs, and returns it; `None` if it has ended or there
    /// is none by this id. Its worker stops when it reports the next time.
    async fn cancel_job(&self, id: &JobId, now: Now) -> StoreResult<Option<Job>>;

    /// Who asked for a job; `None` if it was nobody, the server, or somebody whose account was deleted since.
    async fn job_owner(&self, id: &JobId) -> StoreResult<Option<AccountId>>;

    /// The newest jobs, newest first.
    async fn jobs(&self, limit: u32) -> StoreResult<Vec<Job>>;

    /// One job; `None` if there is none by this id.
    async fn job(&self, id: &JobId) -> StoreResult<Option<Job>>;

    /// The events of a job with a number above `seq`, in order.
    async fn job_events(&self, id: &JobId, after: u64) -> StoreResult<Vec<JobEvent>>;

    /// Gives the oldest queued job to the caller; `None` if the queue is empty.
    /// No two callers get the same job as long as the first renews its lease.
    async fn claim_job(&self, now: Now) -> StoreResult<Option<Claim>>;

    /// Renews the lease of a job and records how far it is, if given. `false` if
    /// the claim has been lost; the caller then stops.
    async fn report(&self, claim: &Claim, now: Now, progress: Option<(f64, &str)>) -> StoreResult<bool>;

    /// Ends a job, with what it made or the reason of its failure. `false` if the
    /// claim had been lost; then nothing is recorded.
    async fn finish_job(&self, claim: &Claim, now: Now, outcome: Result<&Made, &str>) -> StoreResult<bool>;

    /// Queues a job again that failed for a reason that may pass, to be tried after a while; after
    /// [`MAX_ATTEMPTS`](super::MAX_ATTEMPTS) it has failed. `false` if the claim had been lost.
    async fn postpone_job(&self, claim: &Claim, now: Now, reason: &str) -> StoreResult<bool>;

    /// Gives a job back unfinished, for instance because this process ends.
    async fn release_job(&self, claim: &Claim) -> StoreResult<()>;

    /// Queues the running jobs again whose lease has ended, and fails those whose
    /// lease has ended [`MAX_ATTEMPTS`](super::MAX_ATTEMPTS) times. Returns how many there were.
    async fn recover_jobs(&self, now: Now) -> StoreResult<u64>;

    /// Bytes of all files that people have sent: uploads and contributed models.
    async fn stored_bytes(&self) -> StoreResult<u64>;

    /// Fails if the database cannot be written to.
    async fn probe(&self) -> StoreResult<()>;

    /// Waits for running statements and closes every connection.
    async fn close(&self);
}
