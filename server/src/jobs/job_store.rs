//! The queue of jobs.

use std::time::Duration;

use diode_api::{Job, JobEvent, JobKind, JobState, ModelType, SnapshotName};
use diode_core::ids::{AccountId, JobId, ModelId};

use crate::store::Store;
use crate::store::connection::Connection;
use crate::store::connection::{Exclusive, in_transaction};
use crate::store::fields::{Readable, from_json, json, named, optional, parse, readable_row, unsigned};
use crate::store::statement::Statement;
use crate::store::upkeep::CheckedRows;
use crate::store::{Now, StoreResult};

readable_row!(Job {
    id, request: String, state: String, created_at, automatic: i64, finished_at, error, model, snapshot
} => Job {
    id: parse("job id", id)?,
    request: from_json("job request", &request)?,
    state: named("job state", &state)?,
    created_at,
    automatic: automatic != 0,
    finished_at,
    error,
    model: optional("model id", model)?,
    snapshot: optional("snapshot name", snapshot)?,
});

readable_row!(JobEvent { seq, state: String, progress, message } => JobEvent {
    seq: unsigned("event number", seq)?,
    state: named("job state", &state)?,
    progress,
    message,
});

readable_row!(Claim { ..job: Job, attempt } => Claim { job, attempt: unsigned("attempt", attempt)? });

/// How long a claim of a job lasts unless its worker reports. It is longer than a write may wait for other
/// writes.
pub const LEASE: Duration = Duration::from_secs(90);

/// How many jobs may wait: some hours of work for one worker.
pub const MAX_WAITING_JOBS: u32 = 20;

/// How many jobs of one account may wait or run, so that other accounts get their turn.
pub const MAX_OWN_JOBS: u32 = 5;

/// How long a job waits after a failure that may pass. The time doubles after each further failure.
pub const BACK_OFF: Duration = Duration::from_secs(30);

/// A job is given up once this many of its workers have died, because the job itself may be the cause.
pub const MAX_ATTEMPTS: u64 = 3;

/// A worker's right to a job. It ends unless the worker renews it.
#[derive(Debug, Clone)]
pub struct Claim {
    pub job: Job,
    /// The number of this claim. Only the latest claim of a job is valid.
    pub attempt: u64,
}

/// The result of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Made {
    Model(ModelId),
    Snapshot(SnapshotName),
    /// Figures, which are stored with a contributed model. Not everybody may see them.
    Figures,
}

impl std::fmt::Display for Made {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Model(id) => write!(f, "model {id}"),
            Self::Snapshot(name) => write!(f, "snapshot {name}"),
            Self::Figures => write!(f, "figures of a contributed model"),
        }
    }
}

/// Whether a job was queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queued {
    Yes,
    /// [`MAX_WAITING_JOBS`] wait already.
    Full,
    /// The account already has [`MAX_OWN_JOBS`].
    TooManyOwn,
}

impl Store {
    /// Puts a job at the end of the queue, unless too many wait. The same request at the same instant is the same
    /// job, and is queued once.
    pub async fn enqueue(&self, job: &Job, account: Option<&AccountId>, now: Now) -> StoreResult<Queued> {
        in_transaction!(self, async |db| { db.enqueue(job, account, now).await })
    }

    /// Ends a job that waits or runs, and returns it. A running job's worker stops at its next report. `None` if the
    /// job has ended, or there is none with this id.
    pub async fn cancel_job(&self, id: &JobId, now: Now) -> StoreResult<Option<Job>> {
        in_transaction!(self, async |db| {
            let update = Statement::new(
                "UPDATE jobs SET state = 'cancelled', finished_at = $1, lease_until = NULL \
                 WHERE id = $2 AND state IN ('queued', 'running') \
                 RETURNING id, request, state, created_at, automatic, finished_at, error, model, snapshot",
            );
            let job: Option<Job> = db.read_optional(update.bind(now.rfc3339()).bind(id.as_str())).await?;
            if job.is_some() {
                db.add_job_event(id.as_str(), JobState::Cancelled, None, "cancelled").await?;
                db.note_unjudged(id, "the job that judges it was cancelled").await?;
            }
            Ok(job)
        })
    }

    /// The account that asked for a job. `None` if the server or an anonymous caller asked, or the account was
    /// deleted.
    pub async fn job_owner(&self, id: &JobId) -> StoreResult<Option<AccountId>> {
        let db = &mut self.reader().await?;
        let select = Statement::new("SELECT account FROM jobs WHERE id = $1").bind(id.as_str());
        let row: Option<(Option<String>,)> = db.fetch_optional(select).await?;
        Ok(row.and_then(|(account,)| account).map(|id| parse("account id", id)).transpose()?)
    }

    /// The newest jobs, newest first.
    pub async fn jobs(&self, limit: u32) -> StoreResult<Vec<Job>> {
        let db = &mut self.reader().await?;
        let select = Statement::new(
            "SELECT id, request, state, created_at, automatic, finished_at, error, model, snapshot FROM \
             jobs \
             ORDER BY position DESC LIMIT $1",
        );
        db.read_all(select.bind(i64::from(limit))).await
    }

    /// One job; `None` if there is none with this id.
    pub async fn job(&self, id: &JobId) -> StoreResult<Option<Job>> {
        self.reader().await?.find_job(id).await
    }

    /// The events of a job with a number above `after`, in order.
    pub async fn job_events(&self, id: &JobId, after: u64) -> StoreResult<Vec<JobEvent>> {
        let db = &mut self.reader().await?;
        let select = Statement::new(
            "SELECT seq, state, progress, message FROM job_events WHERE job = $1 AND seq > $2 ORDER BY seq",
        );
        db.read_all(select.bind(id.as_str()).bind(after)).await
    }

    /// Gives the oldest queued job to the caller; `None` if the queue is empty. No other caller gets the same job as
    /// long as the claim is renewed.
    pub async fn claim_job(&self, now: Now) -> StoreResult<Option<Claim>> {
        in_transaction!(self, async |db| {
            let update = Statement::new(
        "UPDATE jobs SET state = 'running', attempt = attempt + 1, lease_until = $1 WHERE position = ( \
         SELECT position FROM jobs WHERE state = 'queued' AND (not_before <= $2 OR not_before > $3) \
         ORDER BY position LIMIT 1",
    )
    .bind(now.lease_end(LEASE))
    .bind(now.millis())
    .bind(now.latest_end(BACK_OFF * 2_u32.pow(MAX_ATTEMPTS as u32)))
    .push(db.skip_locked())
    .push(
        ") RETURNING id, request, state, created_at, automatic, finished_at, error, model, snapshot, attempt",
    );
            let Some(claim) = db.read_optional::<Claim>(update).await? else { return Ok(None) };
            db.add_job_event(claim.job.id.as_str(), JobState::Running, Some(0.0), "started").await?;
            Ok(Some(claim))
        })
    }

    /// Renews the claim of a job, and stores its progress, if given. `false` if the claim was lost; then the caller
    /// must stop.
    pub async fn report(&self, claim: &Claim, now: Now, progress: Option<(f64, &str)>) -> StoreResult<bool> {
        in_transaction!(self, async |db| {
            let update = Statement::new(
                "UPDATE jobs SET lease_until = $1 WHERE id = $2 AND attempt = $3 AND state = 'running'",
            )
            .bind(now.lease_end(LEASE))
            .bind(claim.job.id.as_str())
            .bind(claim.attempt);
            if db.execute(update).await? == 0 {
                return Ok(false);
            }
            if let Some((share, message)) = progress {
                db.add_job_event(claim.job.id.as_str(), JobState::Running, Some(share), message).await?;
            }
            Ok(true)
        })
    }

    /// Ends a job, with what it made or the reason of its failure. `false` if the claim was lost; then nothing is
    /// stored.
    pub async fn finish_job(
        &self,
        claim: &Claim,
        now: Now,
        outcome: Result<&Made, &str>,
    ) -> StoreResult<bool> {
        in_transaction!(self, async |db| { db.finish_job(claim, now, outcome).await })
    }

    /// Queues a job again, to be tried after a while, because it failed for a reason that may pass. After
    /// [`MAX_ATTEMPTS`] attempts the job counts as failed. `false` if the claim was lost.
    pub async fn postpone_job(&self, claim: &Claim, now: Now, reason: &str) -> StoreResult<bool> {
        in_transaction!(self, async |db| {
            if claim.attempt >= MAX_ATTEMPTS {
                let reason = format!("gave up after {MAX_ATTEMPTS} attempts: {reason}");
                return db.finish_job(claim, now, Err(&reason)).await;
            }
            let wait = BACK_OFF * 2_u32.pow(u32::try_from(claim.attempt.saturating_sub(1)).unwrap_or(0));
            let update = Statement::new(
                "UPDATE jobs SET state = 'queued', lease_until = NULL, not_before = $1 \
                 WHERE id = $2 AND attempt = $3 AND state = 'running'",
            )
            .bind(now.lease_end(wait))
            .bind(claim.job.id.as_str())
            .bind(claim.attempt);
            if db.execute(update).await? == 0 {
                return Ok(false);
            }
            let message = format!("tried again in {} s: {reason}", wait.as_secs());
            db.add_job_event(claim.job.id.as_str(), JobState::Queued, Some(0.0), &message).await?;
            Ok(true)
        })
    }

    /// Gives a job back unfinished, for instance because this process ends. Another worker can then claim the job.
    pub async fn release_job(&self, claim: &Claim) -> StoreResult<()> {
        in_transaction!(self, async |db| {
            let update = Statement::new(
                "UPDATE jobs SET state = 'queued', attempt = attempt - 1, lease_until = NULL \
                 WHERE id = $1 AND attempt = $2 AND state = 'running'",
            )
            .bind(claim.job.id.as_str())
            .bind(claim.attempt);
            if db.execute(update).await? == 1 {
                let message = "queued again: the worker was stopped";
                db.add_job_event(claim.job.id.as_str(), JobState::Queued, Some(0.0), message).await?;
            }
            Ok(())
        })
    }

    /// Queues running jobs again whose claim has ended. Fails a job whose claim has ended
    /// [`MAX_ATTEMPTS`] times. Returns how many jobs it changed.
    pub async fn recover_jobs(&self, now: Now) -> StoreResult<u64> {
        in_transaction!(self, async |db| {
            let hopeless = format!("gave up: {MAX_ATTEMPTS} workers died while running it");
            let fail = Statement::new(
                "UPDATE jobs SET state = 'failed', finished_at = $1, error = $2, lease_until = NULL \
                 WHERE state = 'running' AND (lease_until < $3 OR lease_until > $4) AND attempt >= $5 RETURNING id",
            )
            .bind(now.rfc3339())
            .bind(hopeless.as_str())
            .bind(now.millis())
            .bind(now.latest_end(LEASE))
            .bind(MAX_ATTEMPTS);
            let failed: Vec<(String,)> = db.fetch_all(fail).await?;
            let queue = Statement::new(
                "UPDATE jobs SET state = 'queued', lease_until = NULL \
                 WHERE state = 'running' AND (lease_until < $1 OR lease_until > $2) RETURNING id",
            )
            .bind(now.millis())
            .bind(now.latest_end(LEASE));
            let queued: Vec<(String,)> = db.fetch_all(queue).await?;
            for (job,) in &failed {
                db.add_job_event(job, JobState::Failed, None, &hopeless).await?;
            }
            for (job,) in &queued {
                db.add_job_event(job, JobState::Queued, Some(0.0), "queued again: its worker died").await?;
            }
            Ok((failed.len() + queued.len()) as u64)
        })
    }
}

impl Connection {
    pub(crate) async fn enqueue(
        &mut self,
        job: &Job,
        account: Option<&AccountId>,
        now: Now,
    ) -> StoreResult<Queued> {
        self.turn(Exclusive::Queue).await?;
        let count = Statement::new("SELECT COUNT(*) FROM jobs WHERE state = 'queued'");
        let (waiting,): (i64,) = self.fetch_one(count).await?;
        if waiting >= i64::from(MAX_WAITING_JOBS) {
            return Ok(Queued::Full);
        }
        if let Some(account) = account {
            let count = Statement::new(
                "SELECT COUNT(*) FROM jobs WHERE account = $1 AND state IN ('queued', 'running')",
            );
            let (own,): (i64,) = self.fetch_one(count.bind(account.as_str())).await?;
            if own >= i64::from(MAX_OWN_JOBS) {
                return Ok(Queued::TooManyOwn);
            }
        }
        let insert = Statement::new(
            "INSERT INTO jobs (id, request, state, created_at, automatic, account) \
             VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING",
        )
        .bind(job.id.as_str())
        .bind(json("job request", &job.request)?)
        .bind(job.state.as_str())
        .bind(job.created_at.as_str())
        .bind(i64::from(job.automatic))
        .bind(account.map(AccountId::as_str));
        if self.execute(insert).await? == 1 {
            // A training of a `base` or `deep` model must not delay the next training of a model that may be
            // published.
            if job.request.kind == JobKind::Train && job.request.model_type == ModelType::Ranking {
                self.mark_training(&job.request.hardware, job.request.heuristic, now).await?;
            }
            self.add_job_event(job.id.as_str(), JobState::Queued, Some(0.0), "queued").await?;
        }
        Ok(Queued::Yes)
    }

    pub(crate) async fn find_job(&mut self, id: &JobId) -> StoreResult<Option<Job>> {
        let select = Statement::new(
            "SELECT id, request, state, created_at, automatic, finished_at, error, model, snapshot FROM \
             jobs WHERE id = $1",
        );
        self.read_optional(select.bind(id.as_str())).await
    }

    /// Reads every job, and the states in its events.
    pub(crate) async fn check_jobs(&mut self, checked: &mut CheckedRows) -> StoreResult<()> {
        let ids = Statement::new("SELECT id FROM jobs ORDER BY position");
        let ids: Vec<(String,)> = self.fetch_all(ids).await?;
        let select = "SELECT id, request, state, created_at, automatic, finished_at, error, model, snapshot \
                      FROM jobs \
                      ORDER BY position";
        let jobs: Vec<Readable<Job>> = self.fetch_all(Statement::new(select)).await?;
        for ((id,), Readable(job)) in ids.iter().zip(jobs) {
            checked.note("job", id, job.map(drop));
        }
        let select = "SELECT DISTINCT job, state FROM job_events ORDER BY job, state";
        let events: Vec<(String, String)> = self.fetch_all(Statement::new(select)).await?;
        for (job, state) in events {
            let read = named::<JobState>("job state", &state);
            if let Err(damaged) = read {
                checked.damaged.push(format!("an event of job {job}: {damaged}"));
            }
        }
        Ok(())
    }

    pub(crate) async fn finish_job(
        &mut self,
        claim: &Claim,
        now: Now,
        outcome: Result<&Made, &str>,
    ) -> StoreResult<bool> {
        let (state, progress, message) = match outcome {
            Ok(made) => (JobState::Done, Some(1.0), format!("done: {made}")),
            Err(error) => (JobState::Failed, None, format!("failed: {error}")),
        };
        let (model, snapshot) = match outcome {
            Ok(Made::Model(id)) => (Some(id), None),
            Ok(Made::Snapshot(name)) => (None, Some(name)),
            Ok(Made::Figures) | Err(_) => (None, None),
        };
        let update = Statement::new(
        "UPDATE jobs SET state = $1, finished_at = $2, model = $3, snapshot = $4, error = $5, lease_until = \
         NULL \
         WHERE id = $6 AND attempt = $7 AND state = 'running'",
    )
    .bind(state.as_str())
    .bind(now.rfc3339())
    .bind(model.map(ModelId::as_str))
    .bind(snapshot.map(ToString::to_string))
    .bind(outcome.err())
    .bind(claim.job.id.as_str())
    .bind(claim.attempt);
        if self.execute(update).await? == 0 {
            return Ok(false);
        }
        self.add_job_event(claim.job.id.as_str(), state, progress, &message).await?;
        if outcome.is_err() {
            self.note_unjudged(&claim.job.id, "the job that judges it has failed").await?;
        }
        Ok(true)
    }

    /// Adds an event to a job. Without a share, the event has the highest share of the earlier events.
    async fn add_job_event(
        &mut self,
        job: &str,
        state: JobState,
        share: Option<f64>,
        message: &str,
    ) -> StoreResult<()> {
        let insert = Statement::new(
            "INSERT INTO job_events (job, seq, state, progress, message) \
             SELECT $1, COALESCE(MAX(seq), 0) + 1, $2, COALESCE($3, MAX(progress), 0.0), $4 \
             FROM job_events WHERE job = $1",
        )
        .bind(job)
        .bind(state.as_str())
        .bind(share)
        .bind(message);
        self.execute(insert).await?;
        Ok(())
    }
}
