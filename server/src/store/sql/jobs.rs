use diode_api::{Job, JobEvent, JobKind, JobState, ModelType};
use diode_core::ids::{AccountId, JobId, ModelId};

use super::{training_marks, unjudged};
use crate::solutions::Damaged;
use crate::store::connection::{Connection, Exclusive};
use crate::store::error::StoreResult;
use crate::store::fields::{from_json, json, named, optional, parse, unsigned};
use crate::store::from_row::from_row;
use crate::store::statement::Statement;
use crate::store::types::{
    BACK_OFF, Claim, LEASE, MAX_ATTEMPTS, MAX_OWN_JOBS, MAX_WAITING_JOBS, Made, Now, Queued,
};
use crate::store::upkeep::CheckedRows;

struct JobRow {
    id: String,
    request: String,
    state: String,
    created_at: String,
    automatic: i64,
    finished_at: Option<String>,
    error: Option<String>,
    model: Option<String>,
    snapshot: Option<String>,
}

from_row!(JobRow { id, request, state, created_at, automatic, finished_at, error, model, snapshot });

impl JobRow {
    fn job(self) -> Result<Job, Damaged> {
        Ok(Job {
            id: parse("job id", self.id)?,
            request: from_json("job request", &self.request)?,
            state: named("job state", &self.state)?,
            created_at: self.created_at,
            automatic: self.automatic != 0,
            finished_at: self.finished_at,
            error: self.error,
            model: optional("model id", self.model)?,
            snapshot: optional("snapshot name", self.snapshot)?,
        })
    }
}

struct EventRow {
    seq: i64,
    state: String,
    progress: f64,
    message: String,
}

from_row!(EventRow { seq, state, progress, message });

impl EventRow {
    fn event(self) -> Result<JobEvent, Damaged> {
        Ok(JobEvent {
            seq: unsigned("event number", self.seq)?,
            state: named("job state", &self.state)?,
            progress: self.progress,
            message: self.message,
        })
    }
}

struct ClaimRow {
    job: JobRow,
    attempt: i64,
}

from_row!(ClaimRow { attempt, ..job });

impl ClaimRow {
    fn claim(self) -> Result<Claim, Damaged> {
        Ok(Claim { job: self.job.job()?, attempt: unsigned("attempt", self.attempt)? })
    }
}

pub(super) async fn enqueue(
    db: &mut Connection,
    job: &Job,
    account: Option<&AccountId>,
    now: Now,
) -> StoreResult<Queued> {
    db.turn(Exclusive::Queue).await?;
    let count = Statement::new("SELECT COUNT(*) FROM jobs WHERE state = 'queued'");
    let (waiting,): (i64,) = db.fetch_one(count).await?;
    if waiting >= i64::from(MAX_WAITING_JOBS) {
        return Ok(Queued::Full);
    }
    if let Some(account) = account {
        let count =
            Statement::new("SELECT COUNT(*) FROM jobs WHERE account = $1 AND state IN ('queued', 'running')");
        let (own,): (i64,) = db.fetch_one(count.bind(account.as_str())).await?;
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
    if db.execute(insert).await? == 1 {
        // A training of a `base` or `deep` model must not delay the next training of a model that may be
        // published.
        if job.request.kind == JobKind::Train && job.request.model_type == ModelType::Ranking {
            training_marks::mark(db, &job.request.hardware, job.request.heuristic, now).await?;
        }
        add_event(db, job.id.as_str(), JobState::Queued, Some(0.0), "queued").await?;
    }
    Ok(Queued::Yes)
}

pub(super) async fn cancel(db: &mut Connection, id: &JobId, now: Now) -> StoreResult<Option<Job>> {
    let update = Statement::new(
        "UPDATE jobs SET state = 'cancelled', finished_at = $1, lease_until = NULL \
         WHERE id = $2 AND state IN ('queued', 'running') \
         RETURNING id, request, state, created_at, automatic, finished_at, error, model, snapshot",
    );
    let row: Option<JobRow> = db.fetch_optional(update.bind(now.rfc3339()).bind(id.as_str())).await?;
    if row.is_some() {
        add_event(db, id.as_str(), JobState::Cancelled, None, "cancelled").await?;
        unjudged::note(db, id, "the job that judges it was cancelled").await?;
    }
    Ok(row.map(JobRow::job).transpose()?)
}

/// The account that asked for a job. `None` if the server or an anonymous caller asked, or the account was
/// deleted.
pub(super) async fn owner(db: &mut Connection, id: &JobId) -> StoreResult<Option<AccountId>> {
    let select = Statement::new("SELECT account FROM jobs WHERE id = $1").bind(id.as_str());
    let row: Option<(Option<String>,)> = db.fetch_optional(select).await?;
    Ok(row.and_then(|(account,)| account).map(|id| parse("account id", id)).transpose()?)
}

pub(super) async fn newest(db: &mut Connection, limit: u32) -> StoreResult<Vec<Job>> {
    let select = Statement::new(
        "SELECT id, request, state, created_at, automatic, finished_at, error, model, snapshot FROM jobs \
         ORDER BY position DESC LIMIT $1",
    );
    let rows: Vec<JobRow> = db.fetch_all(select.bind(i64::from(limit))).await?;
    Ok(rows.into_iter().map(JobRow::job).collect::<Result<_, _>>()?)
}

pub(super) async fn find(db: &mut Connection, id: &JobId) -> StoreResult<Option<Job>> {
    let select = Statement::new(
        "SELECT id, request, state, created_at, automatic, finished_at, error, model, snapshot FROM jobs WHERE id = $1",
    );
    let row: Option<JobRow> = db.fetch_optional(select.bind(id.as_str())).await?;
    Ok(row.map(JobRow::job).transpose()?)
}

pub(super) async fn events(db: &mut Connection, id: &JobId, after: u64) -> StoreResult<Vec<JobEvent>> {
    let select = Statement::new(
        "SELECT seq, state, progress, message FROM job_events WHERE job = $1 AND seq > $2 ORDER BY seq",
    );
    let rows: Vec<EventRow> = db.fetch_all(select.bind(id.as_str()).bind(after)).await?;
    Ok(rows.into_iter().map(EventRow::event).collect::<Result<_, _>>()?)
}

/// Reads every job, and the states in its events.
pub(super) async fn check(db: &mut Connection, checked: &mut CheckedRows) -> StoreResult<()> {
    let select = "SELECT id, request, state, created_at, automatic, finished_at, error, model, snapshot FROM jobs \
                  ORDER BY position";
    let jobs: Vec<JobRow> = db.fetch_all(Statement::new(select)).await?;
    for row in jobs {
        let id = row.id.clone();
        checked.note("job", &id, row.job().map(drop));
    }
    let select = "SELECT DISTINCT job, state FROM job_events ORDER BY job, state";
    let events: Vec<(String, String)> = db.fetch_all(Statement::new(select)).await?;
    for (job, state) in events {
        let read = named::<JobState>("job state", &state);
        if let Err(damaged) = read {
            checked.damaged.push(format!("an event of job {job}: {damaged}"));
        }
    }
    Ok(())
}

pub(super) async fn claim(db: &mut Connection, now: Now) -> StoreResult<Option<Claim>> {
    let update = Statement::new(
        "UPDATE jobs SET state = 'running', attempt = attempt + 1, lease_until = $1 WHERE position = ( \
             SELECT position FROM jobs WHERE state = 'queued' AND not_before <= $2 ORDER BY position LIMIT 1",
    )
    .bind(now.lease_end(LEASE))
    .bind(now.millis())
    .push(db.skip_locked())
    .push(
        ") RETURNING id, request, state, created_at, automatic, finished_at, error, model, snapshot, attempt",
    );
    let row: Option<ClaimRow> = db.fetch_optional(update).await?;
    let Some(row) = row else { return Ok(None) };
    let claim = row.claim()?;
    add_event(db, claim.job.id.as_str(), JobState::Running, Some(0.0), "started").await?;
    Ok(Some(claim))
}

pub(super) async fn report(
    db: &mut Connection,
    claim: &Claim,
    now: Now,
    progress: Option<(f64, &str)>,
) -> StoreResult<bool> {
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
        add_event(db, claim.job.id.as_str(), JobState::Running, Some(share), message).await?;
    }
    Ok(true)
}

pub(super) async fn finish(
    db: &mut Connection,
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
        "UPDATE jobs SET state = $1, finished_at = $2, model = $3, snapshot = $4, error = $5, lease_until = NULL \
         WHERE id = $6 AND attempt = $7 AND state = 'running'",
    )
    .bind(state.as_str())
    .bind(now.rfc3339())
    .bind(model.map(ModelId::as_str))
    .bind(snapshot.map(ToString::to_string))
    .bind(outcome.err())
    .bind(claim.job.id.as_str())
    .bind(claim.attempt);
    if db.execute(update).await? == 0 {
        return Ok(false);
    }
    add_event(db, claim.job.id.as_str(), state, progress, &message).await?;
    if outcome.is_err() {
        unjudged::note(db, &claim.job.id, "the job that judges it has failed").await?;
    }
    Ok(true)
}

pub(super) async fn postpone(
    db: &mut Connection,
    claim: &Claim,
    now: Now,
    reason: &str,
) -> StoreResult<bool> {
    if claim.attempt >= MAX_ATTEMPTS {
        let reason = format!("gave up after {MAX_ATTEMPTS} attempts: {reason}");
        return finish(db, claim, now, Err(&reason)).await;
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
    add_event(db, claim.job.id.as_str(), JobState::Queued, Some(0.0), &message).await?;
    Ok(true)
}

pub(super) async fn release(db: &mut Connection, claim: &Claim) -> StoreResult<()> {
    let update = Statement::new(
        "UPDATE jobs SET state = 'queued', attempt = attempt - 1, lease_until = NULL \
         WHERE id = $1 AND attempt = $2 AND state = 'running'",
    )
    .bind(claim.job.id.as_str())
    .bind(claim.attempt);
    if db.execute(update).await? == 1 {
        let message = "queued again: the worker was stopped";
        add_event(db, claim.job.id.as_str(), JobState::Queued, Some(0.0), message).await?;
    }
    Ok(())
}

pub(super) async fn recover(db: &mut Connection, now: Now) -> StoreResult<u64> {
    let hopeless = format!("gave up: {MAX_ATTEMPTS} workers died while running it");
    let fail = Statement::new(
        "UPDATE jobs SET state = 'failed', finished_at = $1, error = $2, lease_until = NULL \
         WHERE state = 'running' AND lease_until < $3 AND attempt >= $4 RETURNING id",
    )
    .bind(now.rfc3339())
    .bind(hopeless.as_str())
    .bind(now.millis())
    .bind(MAX_ATTEMPTS);
    let failed: Vec<(String,)> = db.fetch_all(fail).await?;
    let queue = Statement::new(
        "UPDATE jobs SET state = 'queued', lease_until = NULL \
         WHERE state = 'running' AND lease_until < $1 RETURNING id",
    )
    .bind(now.millis());
    let queued: Vec<(String,)> = db.fetch_all(queue).await?;
    for (job,) in &failed {
        add_event(db, job, JobState::Failed, None, &hopeless).await?;
    }
    for (job,) in &queued {
        add_event(db, job, JobState::Queued, Some(0.0), "queued again: its worker died").await?;
    }
    Ok((failed.len() + queued.len()) as u64)
}

/// Adds an event to a job. Without a share, the event has the highest share of the earlier events.
async fn add_event(
    db: &mut Connection,
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
    db.execute(insert).await?;
    Ok(())
}
