//! Trainings that the server asks for by itself.

use diode_api::{Job, JobRequest, ModelSource, ModelType};

use crate::store::connection::{Connection, Exclusive};
use crate::store::error::StoreResult;
use crate::store::fields::unsigned;
use crate::store::publications::Due;
use crate::store::sql::training_marks::measured;
use crate::store::sql::{jobs, models};
use crate::store::statement::Statement;
use crate::store::types::{Now, Queued};

pub(super) async fn queue(db: &mut Connection, job: &Job, due: &Due, now: Now) -> StoreResult<bool> {
    // Other callers that want to queue the same training wait here, and then find the mark.
    db.turn(Exclusive::Queue).await?;
    Ok(is_due(db, &job.request, due, now).await? && jobs::enqueue(db, job, None, now).await? == Queued::Yes)
}

/// How many of the newest models are read to see what they have learnt.
const LOOKED_AT: u32 = 100;

pub(super) async fn is_due(
    db: &mut Connection,
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
        // No training was asked for yet. Problems that a model from elsewhere has learnt are not new.
        None => {
            let models = models::list(db, Some(&request.hardware), LOOKED_AT).await?;
            // A contributor's statement of what a model has learnt may be false, so it does not count.
            let ours = models.iter().filter(|model| {
                model.source != ModelSource::Contributed && model.model_type == ModelType::Ranking
            });
            (ours.map(|model| model.training_problems).max().unwrap_or(0), None)
        }
    };
    Ok(due.is_due(before, there, asked, now))
}
