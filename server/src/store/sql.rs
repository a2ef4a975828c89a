//! The SQL, one copy for both databases.

mod accounts;
mod agents;
pub(super) mod board;
mod board_entries;
mod checks;
mod contribution_row;
mod contributions;
mod copies;
mod deviations;
mod entry_row;
mod fencing;
mod figures;
mod filter;
mod hardware;
mod inserts;
mod jobs;
mod licences;
mod log;
mod models;
mod moderation;
mod nearest;
mod packs;
mod problems;
mod publications;
mod refresh;
mod removal;
mod senders;
mod sizes;
mod snapshots;
mod solutions;
mod stale_entries;
mod standing;
pub(super) mod summaries;
mod survey;
mod to_fence;
mod training_marks;
mod unjudged;
mod upkeep;
mod uploads;
mod view_solutions;

use std::ops::RangeInclusive;

use diode_api::{
    HardwareSummary, Job, JobEvent, Leaderboard, ModelSummary, NearestProblem, ProblemFilter, ProblemPoint,
    ProblemView, Receipt, UploadLicence,
};
use diode_core::hardware::Hardware;
use diode_core::ids::{AccountId, Digest, HardwareSlug, JobId, ModelId, ProblemId, UploadId};
use diode_core::{Method, Problem};

use super::Store;
use super::connection::{Lockable, in_transaction};
use super::error::StoreResult;
use super::statement::Statement;
use super::types::{BoardQuery, Claim, KnownHardware, Made, NewUpload, Now, Queued, TrainingData, View};
use crate::blobs::BlobKind;
use crate::consensus::BoardEntry;
use crate::solutions::StoredSolutions;

use solutions::Selection;

impl Store {
    /// Fails if the database does not answer.
    pub async fn ping(&self) -> StoreResult<()> {
        self.reader().await?.execute(Statement::new("SELECT 1")).await?;
        Ok(())
    }

    /// The receipt of a stored upload; `None` if there is none.
    pub async fn receipt(&self, upload: &UploadId) -> StoreResult<Option<Receipt>> {
        uploads::receipt(&mut self.reader().await?, upload).await
    }

    /// Stores an upload. Recomputes some of the board entries that it changes, and leaves the others for
    /// [`Self::refresh_entries`]: an upload must not cost more because the database is larger. Once this returns,
    /// the rows are durable.
    ///
    /// Bytes that are stored already change nothing, even if two calls race. The receipt then has `already_stored`
    /// set. Solutions with a known digest are counted as duplicates and left out.
    pub async fn store_upload(&self, upload: &NewUpload) -> StoreResult<Receipt> {
        in_transaction!(self, tx => uploads::store(tx, upload))
    }

    /// Until the returned value is dropped, no upload or contributed model with this file is added.
    pub async fn hold_file(&self, kind: BlobKind, digest: &Digest) -> StoreResult<Box<dyn Send>> {
        let mut tx = self.writer().await?;
        tx.claim(Lockable::File(kind, digest)).await?;
        Ok(Box::new(tx))
    }

    /// Stores that the bytes of a stored upload were sent again. Another account becomes a second sender, so that
    /// the upload stays if the first sender deletes it. If the same sender has since agreed to newer terms, these
    /// count. `false` if the upload no longer exists.
    pub async fn add_sender(
        &self,
        upload: &UploadId,
        account: Option<&AccountId>,
        licence: &UploadLicence,
    ) -> StoreResult<bool> {
        in_transaction!(self, tx => senders::add(tx, upload, account, licence))
    }

    /// All hardware that has data or models, in the order of slugs. Empty on a new database.
    pub async fn hardware_list(&self) -> StoreResult<Vec<HardwareSummary>> {
        summaries::list(&mut self.read_transaction().await?, &self.figures, None).await
    }

    /// One kind of hardware with its figures; `None` if there are neither data nor models for it.
    pub async fn hardware_summary(&self, slug: &HardwareSlug) -> StoreResult<Option<HardwareSummary>> {
        Ok(summaries::list(&mut self.read_transaction().await?, &self.figures, Some(slug)).await?.pop())
    }

    /// The description of a hardware. Reads only one row.
    pub async fn hardware(&self, slug: &HardwareSlug) -> StoreResult<Option<Hardware>> {
        hardware::find(&mut self.reader().await?, slug).await
    }

    /// The description of a hardware, and whether an administrator has confirmed its facts.
    pub async fn known_hardware(&self, slug: &HardwareSlug) -> StoreResult<Option<KnownHardware>> {
        hardware::known(&mut self.reader().await?, slug).await
    }

    /// A text that changes when the timings of a hardware change. It is the same on another server with the same
    /// timings. `None` for unknown hardware.
    pub async fn hardware_state(&self, slug: &HardwareSlug) -> StoreResult<Option<String>> {
        hardware::state(&mut self.reader().await?, slug).await
    }

    /// A number that grows with each change of the hardware's entries. `None` for unknown hardware.
    pub async fn hardware_revision(&self, slug: &HardwareSlug) -> StoreResult<Option<i64>> {
        hardware::revision(&mut self.reader().await?, slug).await
    }

    /// Recomputes some of the stale board entries, or judges some uploads anew whose deviations have changed.
    /// Returns how many; 0 if none was left. Several processes may call it at once.
    pub async fn refresh_entries(&self) -> StoreResult<usize> {
        in_transaction!(self, tx => refresh::refresh_or_judge(tx))
    }

    /// The stale views.
    pub async fn stale_entries(&self) -> StoreResult<Vec<View>> {
        refresh::marked(&mut self.reader().await?).await
    }

    /// How many bytes all files have that people sent: uploads and contributed models.
    pub async fn stored_bytes(&self) -> StoreResult<u64> {
        figures::stored_bytes(&mut self.reader().await?).await
    }

    /// Fails if the database cannot be written to.
    pub async fn probe(&self) -> StoreResult<()> {
        in_transaction!(self, tx => upkeep::probe(tx))
    }

    /// One page of the entries of a hardware. Unknown hardware has an empty board. As long as nothing is uploaded,
    /// the pages have no gaps or repeats. Entries without the sort value come last in either order.
    pub async fn leaderboard(&self, slug: &HardwareSlug, query: &BoardQuery) -> StoreResult<Leaderboard> {
        board::leaderboard(&mut self.read_transaction().await?, &self.totals, slug, query).await
    }

    /// One point for each problem that passes a filter and has a rate, by the method with the most timings. If more
    /// than `cap` problems pass, returns an even sample of them.
    pub async fn problem_points(
        &self,
        slug: &HardwareSlug,
        filter: &ProblemFilter,
        cap: u32,
    ) -> StoreResult<Vec<ProblemPoint>> {
        problems::points(&mut self.reader().await?, slug, filter, cap).await
    }

    /// The measured problems of a hardware that are most like `problem`, by one method, the nearest first. Includes
    /// only problems that the same kernels can run. If there are many, compares only the problems with the nearest
    /// M.
    pub async fn nearest_problems(
        &self,
        slug: &HardwareSlug,
        problem: &Problem,
        method: Method,
        limit: u32,
    ) -> StoreResult<Vec<NearestProblem>> {
        nearest::nearest(&mut self.read_transaction().await?, slug, problem, method, limit).await
    }

    /// A problem; `None` if nothing was ever measured for it.
    pub async fn problem(&self, id: &ProblemId) -> StoreResult<Option<Problem>> {
        problems::find(&mut self.reader().await?, id).await
    }

    /// The hardware and methods by which a problem was measured, sorted. Empty for an unknown problem.
    pub async fn problem_views(&self, id: &ProblemId) -> StoreResult<Vec<ProblemView>> {
        problems::views(&mut self.reader().await?, id).await
    }

    /// The solutions of one view. Empty if there are none.
    pub async fn view_solutions(&self, view: &View) -> StoreResult<StoredSolutions> {
        solutions::load(&mut self.read_transaction().await?, Selection::View(view)).await
    }

    /// Every solution of a hardware that counts. Empty if there are none.
    pub async fn training_data(&self, slug: &HardwareSlug) -> StoreResult<TrainingData> {
        let mut tx = self.read_transaction().await?;
        let solutions = solutions::load(&mut tx, Selection::Hardware(slug)).await?;
        Ok(TrainingData { solutions, uploads: models::uploads_behind(&mut tx, slug).await? })
    }

    /// How many timings and failures each solution of a hardware has. Each solution is given by its number, in the
    /// order in which they arrived.
    pub async fn solution_sizes(&self, slug: &HardwareSlug) -> StoreResult<Vec<(i64, u64)>> {
        sizes::solutions(&mut self.reader().await?, slug).await
    }

    /// The solutions of a hardware with these numbers.
    pub async fn numbered_solutions(
        &self,
        slug: &HardwareSlug,
        numbers: RangeInclusive<i64>,
    ) -> StoreResult<StoredSolutions> {
        solutions::load(&mut self.read_transaction().await?, Selection::Numbered(slug, &numbers)).await
    }

    /// How many timings each method of a hardware has.
    pub async fn method_sizes(&self, slug: &HardwareSlug) -> StoreResult<Vec<(Method, u64)>> {
        sizes::methods(&mut self.reader().await?, slug).await
    }

    /// How many timings each problem of a hardware has by one method, in the order of ids.
    pub async fn problem_sizes(
        &self,
        slug: &HardwareSlug,
        method: Method,
    ) -> StoreResult<Vec<(ProblemId, u64)>> {
        sizes::problems(&mut self.reader().await?, slug, method).await
    }

    /// The solutions of a hardware by one method, for the problems between two ids.
    pub async fn problems_solutions(
        &self,
        slug: &HardwareSlug,
        method: Method,
        problems: RangeInclusive<ProblemId>,
    ) -> StoreResult<StoredSolutions> {
        solutions::load(&mut self.read_transaction().await?, Selection::Problems(slug, method, &problems))
            .await
    }

    /// The board entry of a view; `None` if no config of the view has a time.
    pub async fn board_entry(&self, view: &View) -> StoreResult<Option<BoardEntry>> {
        board_entries::find_checked(&mut self.read_transaction().await?, view).await
    }

    /// Every view that has a solution or an entry, sorted; for verification.
    pub async fn views(&self) -> StoreResult<Vec<View>> {
        board_entries::views(&mut self.reader().await?).await
    }

    /// Adds a model that is released with Diode. Publishes it unless the published model was trained on this server
    /// or is pinned. `false` if the model existed already.
    ///
    /// Keeps the models of its cross-validation, as [`Self::add_judged_model`] does. If the model
    /// existed and is published, adds the models of its cross-validation where they are missing.
    pub async fn add_shipped_model(
        &self,
        model: &ModelSummary,
        hardware: &Hardware,
        uploads: &[UploadId],
        unseen_models: Option<&[u8]>,
        now: Now,
    ) -> StoreResult<bool> {
        in_transaction!(self, tx => publications::add_shipped(tx, model, hardware, uploads, unseen_models, now))
    }

    /// The newest models and all published models, of one hardware or of all hardware, the newest first.
    pub async fn models(
        &self,
        hardware: Option<&HardwareSlug>,
        newest: u32,
    ) -> StoreResult<Vec<ModelSummary>> {
        models::list(&mut self.reader().await?, hardware, newest).await
    }

    /// One model; `None` if there is none with this id.
    pub async fn model(&self, id: &ModelId) -> StoreResult<Option<ModelSummary>> {
        models::find(&mut self.reader().await?, id).await
    }

    /// Puts a job at the end of the queue, unless too many wait. The same request at the same instant is the same
    /// job, and is queued once.
    pub async fn enqueue(&self, job: &Job, account: Option<&AccountId>, now: Now) -> StoreResult<Queued> {
        in_transaction!(self, tx => jobs::enqueue(tx, job, account, now))
    }

    /// Ends a job that waits or runs, and returns it. A running job's worker stops at its next report. `None` if the
    /// job has ended, or there is none with this id.
    pub async fn cancel_job(&self, id: &JobId, now: Now) -> StoreResult<Option<Job>> {
        in_transaction!(self, tx => jobs::cancel(tx, id, now))
    }

    /// The account that asked for a job. `None` if the server or an anonymous caller asked, or the account was
    /// deleted.
    pub async fn job_owner(&self, id: &JobId) -> StoreResult<Option<AccountId>> {
        jobs::owner(&mut self.reader().await?, id).await
    }

    /// The newest jobs, newest first.
    pub async fn jobs(&self, limit: u32) -> StoreResult<Vec<Job>> {
        jobs::newest(&mut self.reader().await?, limit).await
    }

    /// One job; `None` if there is none with this id.
    pub async fn job(&self, id: &JobId) -> StoreResult<Option<Job>> {
        jobs::find(&mut self.reader().await?, id).await
    }

    /// The events of a job with a number above `after`, in order.
    pub async fn job_events(&self, id: &JobId, after: u64) -> StoreResult<Vec<JobEvent>> {
        jobs::events(&mut self.reader().await?, id, after).await
    }

    /// Gives the oldest queued job to the caller; `None` if the queue is empty. No other caller gets the same job as
    /// long as the claim is renewed.
    pub async fn claim_job(&self, now: Now) -> StoreResult<Option<Claim>> {
        in_transaction!(self, tx => jobs::claim(tx, now))
    }

    /// Renews the claim of a job, and stores its progress, if given. `false` if the claim was lost; then the caller
    /// must stop.
    pub async fn report(&self, claim: &Claim, now: Now, progress: Option<(f64, &str)>) -> StoreResult<bool> {
        in_transaction!(self, tx => jobs::report(tx, claim, now, progress))
    }

    /// Ends a job, with what it made or the reason of its failure. `false` if the claim was lost; then nothing is
    /// stored.
    pub async fn finish_job(
        &self,
        claim: &Claim,
        now: Now,
        outcome: Result<&Made, &str>,
    ) -> StoreResult<bool> {
        in_transaction!(self, tx => jobs::finish(tx, claim, now, outcome))
    }

    /// Queues a job again, to be tried after a while, because it failed for a reason that may pass. After
    /// [`MAX_ATTEMPTS`](super::MAX_ATTEMPTS) attempts the job counts as failed. `false` if the claim was lost.
    pub async fn postpone_job(&self, claim: &Claim, now: Now, reason: &str) -> StoreResult<bool> {
        in_transaction!(self, tx => jobs::postpone(tx, claim, now, reason))
    }

    /// Gives a job back unfinished, for instance because this process ends. Another worker can then claim the job.
    pub async fn release_job(&self, claim: &Claim) -> StoreResult<()> {
        in_transaction!(self, tx => jobs::release(tx, claim))
    }

    /// Queues running jobs again whose claim has ended. Fails a job whose claim has ended
    /// [`MAX_ATTEMPTS`](super::MAX_ATTEMPTS) times. Returns how many jobs it changed.
    pub async fn recover_jobs(&self, now: Now) -> StoreResult<u64> {
        in_transaction!(self, tx => jobs::recover(tx, now))
    }

    /// Waits for running statements and closes every connection.
    pub async fn close(&self) {
        self.pools.close().await;
    }
}
