//! Models that people contribute: the checks before anything is stored, and the jobs that judge the models.

use diode_api::{
    Job, JobKind, JobRequest, Licence, ModelDescription, ModelSource, ModelSummary, Review, ReviewAction,
};
use diode_core::Heuristic;
use diode_core::ids::{AccountId, HardwareSlug, JobId, ModelId};
use diode_model::contribution::examine;
use diode_model::{Model, ModelError};

use crate::backend::Backend;
use crate::store::{NewContribution, Now, ReviewRefused, StoreError};
use crate::trainings;
use crate::worker::summarise;

/// Why a model is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotTaken {
    /// The file is no model, or a model that others may not be asked to use.
    #[error(transparent)]
    Model(#[from] ModelError),

    /// This server cannot judge the model.
    #[error("{0}")]
    Refused(String),

    #[error(transparent)]
    Store(#[from] StoreError),

    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// Checks a model's file, and returns what must be stored of it.
pub(crate) async fn prepare(
    backend: &Backend,
    bytes: &[u8],
    account: AccountId,
    description: ModelDescription,
    licence: Licence,
    now: Now,
) -> Result<NewContribution, NotTaken> {
    let model = examine(bytes)?;
    refuse_unmeasured(backend, &model).await?;
    let about = model.metadata();
    let model = ModelSummary { source: ModelSource::Contributed, ..summarise(&model, bytes) };
    let job = judging(about.heuristic, &about.hardware.slug, &model.id, now)?;
    let without_kept = about.training.without_kept;
    Ok(NewContribution { model, account, description, licence, without_kept, job })
}

/// The job that judges a model. Its request does not name the model, because everybody can read requests.
pub(crate) fn judging(
    heuristic: Heuristic,
    hardware: &HardwareSlug,
    model: &ModelId,
    now: Now,
) -> serde_json::Result<Job> {
    let request = JobRequest::new(JobKind::Evaluate, heuristic, hardware.clone());
    let job = trainings::job(request, false, now)?;
    // The id of a job is a hash of request and time. The model's id is added, because two models may be sent
    // at the same time.
    Ok(Job { id: JobId::of(format!("{model} {}", job.id).as_bytes()), ..job })
}

/// Fails if the server has no measurements by which the model can be judged.
async fn refuse_unmeasured(backend: &Backend, model: &Model) -> Result<(), NotTaken> {
    let hardware = &model.metadata().hardware;
    backend.refuse_simulated(hardware).map_err(|invalid| NotTaken::Refused(invalid.to_string()))?;
    let summary = backend.store.hardware_summary(&hardware.slug).await?;
    if summary.is_some_and(|summary| summary.timings > 0) {
        return Ok(());
    }
    Err(NotTaken::Refused(format!(
        "the model is for `{}`, of which nothing has been measured here, so it cannot be judged; upload timings first",
        hardware.slug
    )))
}

/// Carries out an administrator's review.
pub(crate) async fn review(
    backend: &Backend,
    review: &Review,
    who: &str,
    now: Now,
) -> Result<Result<ModelSummary, ReviewRefused>, NotTaken> {
    let Some(model) = backend.store.contribution(&review.model).await? else {
        return Ok(Err(ReviewRefused::Unknown));
    };
    let job = match review.action {
        ReviewAction::Evaluate => Some(judging(model.heuristic, &model.hardware, &model.id, now)?),
        ReviewAction::Accept | ReviewAction::Decline | ReviewAction::Withdraw => None,
    };
    Ok(backend.store.review(review, job.as_ref(), who, now).await?)
}
