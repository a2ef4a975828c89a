use diode_core::api::{Job, JobEvent, JobState};
use diode_core::ids::{JobId, ModelId};
use sqlx::{PgConnection, PgPool};

use super::super::rows::{ClaimRow, EventRow, JobRow, count, json};
use super::super::{Claim, LEASE, MAX_ATTEMPTS, Now, StoreResult};

pub(super) async fn enqueue(pool: &PgPool, job: &Job) -> StoreResult<()> {
    let mut tx = pool.begin().await?;
    let inserted = sqlx::query(
        "INSERT INTO jobs (id, request, state, created_at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
    )
    .bind(job.id.as_str())
    .bind(json("job request", &job.request)?)
    .bind(job.state.as_str())
    .bind(&job.created_at)
    .execute(&mut *tx)
    .await?;
    if inserted.rows_affected() == 1 {
        add_event(&mut tx, job.id.as_str(), JobState::Queued, Some(0.0), "queued").await?;
    }
    tx.commit().await?;
    Ok(())
}

pub(super) async fn newest(pool: &PgPool, limit: u32) -> StoreResult<Vec<Job>> {
    let rows: Vec<JobRow> = sqlx::query_as(
        "SELECT id, request, state, created_at, finished_at, error, model FROM jobs \
         ORDER BY position DESC LIMIT $1",
    )
    .bind(i64::from(limit))
    .fetch_all(pool)
    .await?;
    rows.into_iter().map(JobRow::job).collect()
}

pub(super) async fn find(pool: &PgPool, id: &JobId) -> StoreResult<Option<Job>> {
    let row: Option<JobRow> = sqlx::query_as(
        "SELECT id, request, state, created_at, finished_at, error, model FROM jobs WHERE id = $1",
    )
    .bind(id.as_str())
    .fetch_optional(pool)
    .await?;
    row.map(JobRow::job).transpose()
}

pub(super) async fn events(pool: &PgPool, id: &JobId, after: u64) -> StoreResult<Vec<JobEvent>> {
    let rows: Vec<EventRow> = sqlx::query_as(
        "SELECT seq, state, progress, message FROM job_events WHERE job = $1 AND seq > $2 ORDER BY seq",
    )
    .bind(id.as_str())
    .bind(count(after))
    .fetch_all(pool)
    .await?;
    rows.into_iter().map(EventRow::event).collect()
}

pub(super) async fn claim(pool: &PgPool, now: Now) -> StoreResult<Option<Claim>> {
    let mut tx = pool.begin().await?;
    let row: Option<ClaimRow> = sqlx::query_as(
        "UPDATE jobs SET state = 'running', attempt = attempt + 1, lease_until = $1 WHERE position = ( \
             SELECT position FROM jobs WHERE state = 'queued' ORDER BY position LIMIT 1 \
             FOR UPDATE SKIP LOCKED \
         ) RETURNING id, request, state, created_at, finished_at, error, model, attempt",
    )
    .bind(now.lease_end(LEASE))
    .fetch_optional(&mut *tx)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let claim = row.claim()?;
    add_event(&mut tx, claim.job.id.as_str(), JobState::Running, Some(0.0), "started").await?;
    tx.commit().await?;
    Ok(Some(claim))
}

pub(super) async fn report(
    pool: &PgPool,
    claim: &Claim,
    now: Now,
    progress: Option<(f64, &str)>,
) -> StoreResult<bool> {
    let mut tx = pool.begin().await?;
    let renewed =
        sqlx::query("UPDATE jobs SET lease_until = $1 WHERE id = $2 AND attempt = $3 AND state = 'running'")
            .bind(now.lease_end(LEASE))
            .bind(claim.job.id.as_str())
            .bind(count(claim.attempt))
            .execute(&mut *tx)
            .await?;
    if renewed.rows_affected() == 0 {
        return Ok(false);
    }
    if let Some((share, message)) = progress {
        add_event(&mut tx, claim.job.id.as_str(), JobState::Running, Some(share), message).await?;
    }
    tx.commit().await?;
    Ok(true)
}

pub(super) async fn finish(
    pool: &PgPool,
    claim: &Claim,
    now: Now,
    outcome: Result<&ModelId, &str>,
) -> StoreResult<bool> {
    let (state, progress, message) = match outcome {
        Ok(model) => (JobState::Done, Some(1.0), format!("done: model {model}")),
        Err(error) => (JobState::Failed, None, format!("failed: {error}")),
    };
    let mut tx = pool.begin().await?;
    let ended = sqlx::query(
        "UPDATE jobs SET state = $1, finished_at = $2, model = $3, error = $4, lease_until = NULL \
         WHERE id = $5 AND attempt = $6 AND state = 'running'",
    )
    .bind(state.as_str())
    .bind(now.rfc3339())
    .bind(outcome.ok().map(ModelId::as_str))
    .bind(outcome.err())
    .bind(claim.job.id.as_str())
    .bind(count(claim.attempt))
    .execute(&mut *tx)
    .await?;
    if ended.rows_affected() == 0 {
        return Ok(false);
    }
    add_event(&mut tx, claim.job.id.as_str(), state, progress, &message).await?;
    tx.commit().await?;
    Ok(true)
}

pub(super) async fn release(pool: &PgPool, claim: &Claim) -> StoreResult<()> {
    let mut tx = pool.begin().await?;
    let released = sqlx::query(
        "UPDATE jobs SET state = 'queued', attempt = attempt - 1, lease_until = NULL \
         WHERE id = $1 AND attempt = $2 AND state = 'running'",
    )
    .bind(claim.job.id.as_str())
    .bind(count(claim.attempt))
    .execute(&mut *tx)
    .await?;
    if released.rows_affected() == 1 {
        let message = "queued again: the worker was stopped";
        add_event(&mut tx, claim.job.id.as_str(), JobState::Queued, Some(0.0), message).await?;
    }
    tx.commit().await?;
    Ok(())
}

pub(super) async fn recover(pool: &PgPool, now: Now) -> StoreResult<u64> {
    let mut tx = pool.begin().await?;
    let hopeless = format!("gave up: {MAX_ATTEMPTS} workers died while running it");
    let failed: Vec<String> = sqlx::query_scalar(
        "UPDATE jobs SET state = 'failed', finished_at = $1, error = $2, lease_until = NULL \
         WHERE state = 'running' AND lease_until < $3 AND attempt >= $4 RETURNING id",
    )
    .bind(now.rfc3339())
    .bind(&hopeless)
    .bind(now.millis())
    .bind(count(MAX_ATTEMPTS))
    .fetch_all(&mut *tx)
    .await?;
    let queued: Vec<String> = sqlx::query_scalar(
        "UPDATE jobs SET state = 'queued', lease_until = NULL \
         WHERE state = 'running' AND lease_until < $1 RETURNING id",
    )
    .bind(now.millis())
    .fetch_all(&mut *tx)
    .await?;
    for job in &failed {
        add_event(&mut tx, job, JobState::Failed, None, &hopeless).await?;
    }
    for job in &queued {
        add_event(&mut tx, job, JobState::Queued, Some(0.0), "queued again: its worker died").await?;
    }
    tx.commit().await?;
    Ok((failed.len() + queued.len()) as u64)
}

/// Appends to the events of a job; without a share, it stays where it was.
async fn add_event(
    db: &mut PgConnection,
    job: &str,
    state: JobState,
    share: Option<f64>,
    message: &str,
) -> StoreResult<()> {
    sqlx::query(
        "INSERT INTO job_events (job, seq, state, progress, message) \
         SELECT $1, COALESCE(MAX(seq), 0) + 1, $2, COALESCE($3, MAX(progress), 0.0), $4 \
         FROM job_events WHERE job = $1",
    )
    .bind(job)
    .bind(state.as_str())
    .bind(share)
    .bind(message)
    .execute(db)
    .await?;
    Ok(())
}
