//! Trainings that the server asks for by itself.

use diode_core::Heuristic;
use diode_core::api::{Job, JobRequest};
use diode_core::ids::HardwareSlug;

use crate::store::error::StoreResult;
use crate::store::publications::Due;
use crate::store::sql::connection::Connection;
use crate::store::sql::fields::unsigned;
use crate::store::sql::statement::Statement;
use crate::store::sql::{hardware, jobs, models};
use crate::store::types::{Now, Queued};

pub(super) async fn queue(db: &mut impl Connection, job: &Job, due: &Due, now: Now) -> StoreResult<bool> {
    // Others who want to queue the same wait here, and find the mark then.
    hardware::lock(db, &job.request.hardware).await?;
    Ok(is_due(db, &job.request, due, now).await? && jobs::enqueue(db, job, None, now).await? == Queued::Yes)
}

pub(super) async fn is_due(
    db: &mut impl Connection,
    request: &JobRequest,
    due: &Due,
    now: Now,
) -> StoreResult<bool> {
    let there = measured(db, &request.hardware).await?;
    let select =
        Statement::new("SELECT problems, asked FROM training_marks WHERE hardware = $1 AND heuristic = $2");
    let mark: Option<(i64, i64)> =
        db.fetch_optional(select.bind(request.hardware.as_str()).bind(request.heuristic.as_str())).await?;
    let (before, asked) = match mark {
        Some((problems, asked)) => (unsigned("problem count", problems)?, Some(asked)),
        // What models that came from elsewhere have learnt is not new.
        None => {
            let models = models::list(db, Some(&request.hardware)).await?;
            (models.iter().map(|model| model.training_problems).max().unwrap_or(0), None)
        }
    };
    Ok(due.is_due(before, there, asked, now))
}

/// Notes how much has been measured now that a training is asked for, or a model comes with its data.
pub(in crate::store::sql) async fn mark(
    db: &mut impl Connection,
    hardware: &HardwareSlug,
    heuristic: Heuristic,
    now: Now,
) -> StoreResult<()> {
    let problems = measured(db, hardware).await?;
    let insert = Statement::new(
        "INSERT INTO training_marks (hardware, heuristic, problems, asked) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (hardware, heuristic) DO UPDATE SET problems = excluded.problems, asked = excluded.asked",
    )
    .bind(hardware.as_str())
    .bind(heuristic.as_str())
    .bind(problems)
    .bind(now.millis());
    db.execute(insert).await?;
    Ok(())
}

/// How many problems of a hardware have a result that counts.
async fn measured(db: &mut impl Connection, hardware: &HardwareSlug) -> StoreResult<u64> {
    let select = Statement::new("SELECT COUNT(DISTINCT problem) FROM entries WHERE hardware = $1");
    let (problems,): (i64,) = db.fetch_one(select.bind(hardware.as_str())).await?;
    Ok(unsigned("problem count", problems)?)
}
