//! Trainings that people or the server itself ask for.

use std::time::Duration;

use diode_api::{Job, JobKind, JobRequest, JobState};
use diode_core::Heuristic;
use diode_core::ids::JobId;
use tokio::sync::watch;

use crate::backend::Backend;
use crate::settings::Training;
use crate::store::Now;

/// How often to check whether enough problems are new. Trainings take minutes, so this is soon enough.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// A new job.
pub(crate) fn job(request: JobRequest, automatic: bool, now: Now) -> serde_json::Result<Job> {
    let created_at = now.rfc3339();
    let identity = serde_json::to_vec(&(&request, &created_at))?;
    Ok(Job {
        id: JobId::of(&identity),
        request,
        state: JobState::Queued,
        created_at,
        automatic,
        finished_at: None,
        error: None,
        model: None,
        snapshot: None,
    })
}

/// Asks for trainings where enough is new, until `stopping` turns true or its sender is gone. Several processes
/// may do this at once.
pub async fn run(backend: Backend, settings: Training, mut stopping: watch::Receiver<bool>) {
    if !settings.automatic {
        return;
    }
    loop {
        if let Err(error) = look(&backend, &settings, Now::read()).await {
            tracing::error!("it could not be seen whether trainings are due: {error:#}");
        }
        if tokio::time::timeout(LOOK_EVERY, stopping.wait_for(|stop| *stop)).await.is_ok() {
            return;
        }
    }
}

/// Queues a training for each hardware with enough new problems. Returns how many.
pub async fn look(backend: &Backend, settings: &Training, now: Now) -> anyhow::Result<usize> {
    let mut queued = 0;
    for summary in backend.store.hardware_list().await? {
        let hardware = summary.hardware;
        // Models need the facts of a hardware to compute features. Simulated hardware is trained only on
        // servers that accept it.
        if hardware.facts.is_none() || backend.refuse_simulated(&hardware).is_err() {
            continue;
        }
        let request = JobRequest::new(JobKind::Train, Heuristic::Matmul, hardware.slug);
        let job = job(request, true, now)?;
        match backend.store.queue_training(&job, &settings.due(), now).await {
            Ok(true) => {
                tracing::info!(job = %job.id, hardware = %job.request.hardware, "a training is due");
                queued += 1;
            }
            Ok(false) => {}
            // Goes on with the other hardware, because only the data of this one may be damaged.
            Err(error) => tracing::error!(
                hardware = %job.request.hardware,
                "it could not be seen whether a training is due: {error}"
            ),
        }
    }
    Ok(queued)
}
