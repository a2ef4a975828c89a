//! Snapshots that are made as jobs.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use diode_api::{JobKind, JobRequest, SnapshotName};
use tokio::sync::watch;

use super::train::Failure;
use super::{Progress, follow};
use crate::backend::Backend;
use crate::snapshots::{self, NotFrozen};
use crate::store::{Claim, Now, Queued};
use crate::trainings;

impl From<NotFrozen> for Failure {
    fn from(error: NotFrozen) -> Self {
        match error {
            NotFrozen::Stopped => Self::Stopped,
            NotFrozen::Refused(reason) => Self::Failed(reason),
            NotFrozen::Backend(error) => Self::Backend(error),
        }
    }
}

/// Freezes the data of the job's hardware.
pub(super) async fn freeze(
    backend: &Backend,
    claim: &Claim,
    stopping: &watch::Receiver<bool>,
) -> Result<SnapshotName, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let (tell, progress) = watch::channel::<Progress>((0.0, "reading the data".to_owned()));
    let freezing = tokio::spawn({
        let (backend, stop) = (backend.clone(), Arc::clone(&stop));
        let slug = claim.job.request.hardware.clone();
        async move {
            let tell = |share, message| {
                tell.send_replace((share, message));
            };
            snapshots::freeze(&backend, &slug, &stop, &tell).await
        }
    });
    let claimed = follow(backend, claim, stopping, &freezing, progress, &stop).await;
    let frozen = freezing.await.map_err(|error| Failure::Failed(format!("it ended abruptly: {error}")))?;
    claimed?;
    Ok(frozen?)
}

/// Asks for a snapshot of the data that a published model was trained on, so that the model's card can name
/// it. A failure is only logged, because the model exists already.
pub(super) async fn ask(backend: &Backend, training: &JobRequest) {
    let now = Now::read();
    let request = JobRequest::new(JobKind::Snapshot, training.heuristic, training.hardware.clone());
    let hardware = &training.hardware;
    let queued = match trainings::job(request, true, now) {
        Ok(job) => backend.store.enqueue(&job, None, now).await.map_err(anyhow::Error::from),
        Err(error) => Err(error.into()),
    };
    match queued {
        Ok(Queued::Yes) => {}
        Ok(Queued::Full | Queued::TooManyOwn) => {
            tracing::warn!(%hardware, "no snapshot of a published model's data: too many jobs wait");
        }
        Err(error) => tracing::warn!(%hardware, "no snapshot of a published model's data: {error:#}"),
    }
}
