use diode_api::{Contribution, ContributionState, Job, ModelSource, ModelSummary, Review, ReviewAction};

use super::read;
use crate::store::connection::{Connection, Exclusive};
use crate::store::contributions::ReviewRefused;
use crate::store::error::StoreResult;
use crate::store::sql::{hardware, jobs, models, publications};
use crate::store::statement::Statement;
use crate::store::types::{Now, Queued};

/// The caller must commit only if nothing is refused.
pub(super) async fn act(
    db: &mut Connection,
    review: &Review,
    job: Option<&Job>,
    now: Now,
) -> StoreResult<Result<ModelSummary, ReviewRefused>> {
    db.turn(Exclusive::Queue).await?;
    let Some(found) = read::find(db, &review.model).await? else { return Ok(Err(ReviewRefused::Unknown)) };
    let Some(described) = hardware::lock(db, &found.hardware).await? else {
        return Ok(Err(ReviewRefused::Unknown));
    };
    // The model is read again, because another administrator may have been first, or the account was deleted.
    let Some(model) = read::find(db, &review.model).await? else { return Ok(Err(ReviewRefused::Unknown)) };
    let Some(contribution) = model.contribution.clone() else { return Ok(Err(ReviewRefused::Unknown)) };
    if !allows(&contribution, review) {
        return Ok(Err(ReviewRefused::NotNow(contribution.state)));
    }
    let becomes = match (review.action, job) {
        (ReviewAction::Accept, _) => {
            let bare = ModelSummary { contribution: None, kept: None, ..model };
            // Adds nothing if the server has trained the same model since.
            if models::add(db, &bare, &described, &[]).await? {
                let why = contribution.figures.map_or(String::new(), |figures| figures.why);
                models::set_reason(db, &review.model, &why).await?;
            }
            ContributionState::Accepted
        }
        (ReviewAction::Decline, _) => ContributionState::Declined,
        (ReviewAction::Withdraw, _) => {
            if model.source == ModelSource::Contributed {
                publications::take_away(db, &model, review.reason.as_str(), now).await?;
            }
            ContributionState::Withdrawn
        }
        (ReviewAction::Evaluate, None) => return Ok(Err(ReviewRefused::NotNow(contribution.state))),
        (ReviewAction::Evaluate, Some(job)) => {
            if let Some(refused) = judge_anew(db, &contribution, review, job, now).await? {
                return Ok(Err(refused));
            }
            ContributionState::Waiting
        }
    };
    let update = Statement::new("UPDATE contributed_models SET state = $1, reason = $2 WHERE id = $3")
        .bind(becomes.as_str())
        .bind(if becomes == ContributionState::Waiting { "" } else { review.reason.as_str() })
        .bind(review.model.as_str());
    db.execute(update).await?;
    Ok(read::find(db, &review.model).await?.ok_or(ReviewRefused::Unknown))
}

/// Whether a model's state allows this review.
fn allows(contribution: &Contribution, review: &Review) -> bool {
    use ContributionState as State;
    let state = contribution.state;
    match review.action {
        ReviewAction::Accept => {
            contribution.figures.is_some() && !matches!(state, State::Waiting | State::Accepted)
        }
        ReviewAction::Decline => matches!(state, State::Waiting | State::Evaluated),
        ReviewAction::Withdraw => state == State::Accepted,
        ReviewAction::Evaluate => state != State::Accepted,
    }
}

async fn judge_anew(
    db: &mut Connection,
    contribution: &Contribution,
    review: &Review,
    job: &Job,
    now: Now,
) -> StoreResult<Option<ReviewRefused>> {
    let before = jobs::find(db, &contribution.job).await?;
    if before.is_some_and(|before| !before.state.is_final()) {
        return Ok(Some(ReviewRefused::BeingJudged));
    }
    match jobs::enqueue(db, job, None, now).await? {
        Queued::Yes => {}
        refused => return Ok(Some(ReviewRefused::NoJob(refused))),
    }
    let update = Statement::new("UPDATE contributed_models SET job = $1 WHERE id = $2");
    db.execute(update.bind(job.id.as_str()).bind(review.model.as_str())).await?;
    Ok(None)
}
