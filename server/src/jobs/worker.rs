//! Works on the jobs in the queue, one at a time, until it is told to stop.

mod admitted;
mod evaluate;
mod served;
mod train;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use diode_api::{JobKind, JobRequest, ModelState, ModelSummary, SnapshotName};
use diode_core::hardware::Hardware;
use diode_core::ids::{Digest, UploadId};
use diode_model::Model;
use tokio::sync::watch;
use tracing::Instrument as _;

use crate::backend::Backend;
use crate::blobs::{BlobError, BlobKind};
use crate::jobs::worker::admitted::admit;
use crate::jobs::worker::train::{Failure, OnKept, Trained};
use crate::snapshots::NotFrozen;
use crate::store::{Claim, ComparedWithPublished, Made, Now, Queued, StoreError};
use crate::uploads::solutions::Damaged;
use crate::{agents, snapshots};

pub(crate) use crate::jobs::worker::train::summarise;

/// How often an idle worker looks for a job.
const IDLE: Duration = Duration::from_millis(500);

/// How often progress is stored and the claim renewed: often enough for people who watch, rarely enough for
/// the database.
const REPORT_EVERY: Duration = Duration::from_millis(500);

/// How long to wait after a failure of the database.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The progress of a job: a share from 0 to 1, and a line of text.
type Progress = (f64, String);

/// Works until `stopping` turns true or its sender is gone.
pub async fn run(backend: Backend, stopping: watch::Receiver<bool>) {
    while !*stopping.borrow() && stopping.has_changed().is_ok() {
        let wait = match next(&backend, &stopping).await {
            Ok(true) => continue,
            Ok(false) => IDLE,
            Err(error) => {
                tracing::error!("worker: {error:#}");
                RETRY_AFTER
            }
        };
        let mut stopping = stopping.clone();
        // Usually this times out.
        let _ = tokio::time::timeout(wait, stopping.wait_for(|stop| *stop)).await;
    }
}

/// Works on the next job; `false` if there is none.
async fn next(backend: &Backend, stopping: &watch::Receiver<bool>) -> anyhow::Result<bool> {
    let recovered = backend.store.recover_jobs(Now::read()).await?;
    if recovered > 0 {
        tracing::warn!("{recovered} jobs had lost their worker");
    }
    let Some(claim) = backend.store.claim_job(Now::read()).await? else { return Ok(false) };
    tracing::info!(job = %claim.job.id, "started");
    let began = Instant::now();
    backend.metrics.job_begins();
    let span = tracing::info_span!("job", id = %claim.job.id, kind = %claim.job.request.kind);
    let worked = work(backend, &claim, stopping).instrument(span).await;
    backend.metrics.job_ends(outcome(&worked), began.elapsed());
    match worked {
        Ok(made) => {
            while let Err(error) = backend.store.finish_job(&claim, Now::read(), Ok(&made)).await {
                sit_out(error.into(), stopping).await?;
            }
            tracing::info!(job = %claim.job.id, "done: {made}");
        }
        Err(Failure::Stopped) => backend.store.release_job(&claim).await?,
        Err(Failure::LostClaim) => {
            tracing::warn!(job = %claim.job.id, "cancelled, or another worker has it now")
        }
        Err(Failure::Failed(reason)) => {
            backend.store.finish_job(&claim, Now::read(), Err(&reason)).await?;
            tracing::warn!(job = %claim.job.id, "failed: {reason}");
        }
        Err(Failure::Backend(error)) if *stopping.borrow() => {
            backend.store.release_job(&claim).await?;
            return Err(error);
        }
        Err(Failure::Backend(error)) => {
            // If this fails, too, the claim runs out and the job is tried again.
            backend.store.postpone_job(&claim, Now::read(), &format!("{error:#}")).await?;
            return Err(error);
        }
    }
    Ok(true)
}

/// The outcome of a job, for operators.
fn outcome(worked: &Result<Made, Failure>) -> &'static str {
    match worked {
        Ok(_) => "done",
        Err(Failure::Stopped) => "given_back",
        Err(Failure::LostClaim) => "lost",
        Err(Failure::Failed(_)) => "failed",
        Err(Failure::Backend(_)) => "postponed",
    }
}

async fn work(backend: &Backend, claim: &Claim, stopping: &watch::Receiver<bool>) -> Result<Made, Failure> {
    match claim.job.request.kind {
        JobKind::Train => train_model(backend, claim, stopping).await,
        JobKind::Snapshot => freeze(backend, claim, stopping).await.map(Made::Snapshot),
        JobKind::Evaluate => evaluate::evaluate(backend, claim, stopping).await.map(|()| Made::Figures),
    }
}

async fn train_model(
    backend: &Backend,
    claim: &Claim,
    stopping: &watch::Receiver<bool>,
) -> Result<Made, Failure> {
    let slug = &claim.job.request.hardware;
    let known = backend.store.hardware(slug).await?;
    let hardware = known.ok_or_else(|| Failure::Failed(format!("no hardware `{slug}`")))?;
    let solutions = backend.store.training_data(slug).await?;
    let published = backend.store.published(slug, claim.job.request.heuristic).await?;
    let file = file_of(backend, published.as_ref()).await.map_err(|error| Failure::Backend(error.into()))?;
    let job = claim.job.clone();
    let stop = Arc::new(AtomicBool::new(false));
    let (tell, progress) = watch::channel::<Progress>((0.0, "reading the data".to_owned()));
    let training = tokio::task::spawn_blocking({
        let stop = Arc::clone(&stop);
        move || -> Result<(Trained, BTreeSet<i64>), Failure> {
            let in_force = file.and_then(|file| Model::from_bytes(&file).ok());
            let admitted = admit(hardware, solutions, in_force.as_ref());
            if admitted.refused > 0 {
                tracing::info!(job = %job.id, "{} timings teach nothing until others confirm them", admitted.refused);
            }
            let learnt = admitted.solutions.clone();
            let trained = train::train(admitted, in_force.as_ref(), &job, &stop, &mut |share, message| {
                tell.send_replace((share, message));
            })?;
            Ok((trained, learnt))
        }
    });
    let claimed = follow(backend, claim, stopping, &training, progress, &stop).await;
    let trained = training.await.map_err(|error| {
        // A panic counts as a failure of the job. Otherwise the job would be tried again and again.
        Failure::Failed(format!("the training ended abruptly: {error}"))
    })?;
    claimed?;
    let (trained, learnt) = trained?;
    let uploads = backend.store.uploads_of_solutions(&learnt).await?;
    keep(backend, claim, trained, &uploads, stopping).await
}

/// Waits after a failure of the database or the blobs, which may pass: a full disk must not lose hours of
/// training. Returns the failure if this worker must stop.
async fn sit_out(error: anyhow::Error, stopping: &watch::Receiver<bool>) -> anyhow::Result<()> {
    if *stopping.borrow() {
        return Err(error);
    }
    tracing::error!("tried again in {} s: {error:#}", RETRY_AFTER.as_secs());
    tokio::time::sleep(RETRY_AFTER).await;
    Ok(())
}

/// Reports progress until the training ends. Stops the training if the worker must stop or has lost its
/// claim.
async fn follow<T>(
    backend: &Backend,
    claim: &Claim,
    stopping: &watch::Receiver<bool>,
    training: &tokio::task::JoinHandle<T>,
    progress: watch::Receiver<Progress>,
    stop: &AtomicBool,
) -> Result<(), Failure> {
    let mut told = None;
    loop {
        // `ended` is read before the progress, so that the last progress is reported even if the training ends
        // within one wait.
        let ended = training.is_finished();
        let latest = progress.borrow().clone();
        let is_news = told.as_ref() != Some(&latest);
        let (share, message) = told.insert(latest);
        let news = is_news.then_some((*share, message.as_str()));
        let reported = backend.store.report(claim, Now::read(), news).await;
        if let Err(error @ (StoreError::Unavailable(_) | StoreError::Full(_))) = &reported
            && !*stopping.borrow()
        {
            // The next report checks the claim again. Until then the work goes on.
            tracing::warn!(job = %claim.job.id, "progress could not be recorded: {error}");
            told = None;
        } else if *stopping.borrow() || !matches!(reported, Ok(true)) {
            stop.store(true, Ordering::Relaxed);
            return match reported? {
                true => Err(Failure::Stopped),
                false => Err(Failure::LostClaim),
            };
        }
        if ended {
            break;
        }
        tokio::time::sleep(REPORT_EVERY).await;
    }
    Ok(())
}

/// Stores the model: first its file, then its row.
async fn keep(
    backend: &Backend,
    claim: &Claim,
    trained: Trained,
    uploads: &[UploadId],
    stopping: &watch::Receiver<bool>,
) -> Result<Made, Failure> {
    let Trained { summary, hardware, bytes, unseen_models, kept, unseen } = trained;
    let digest = Digest::of(&bytes);
    let bytes = Bytes::from(bytes);
    while let Err(error) = backend.blobs.put(BlobKind::Model, &digest, bytes.clone()).await {
        sit_out(error.into(), stopping).await.map_err(Failure::Backend)?;
    }
    let kept = Arc::new(kept);
    loop {
        match add(backend, &hardware, &summary, uploads, unseen_models.as_deref(), &kept).await {
            Ok(Some(state)) => {
                tracing::info!(job = %claim.job.id, model = %summary.id, "{state}");
                // The model exists already, so a failure here is only logged.
                match agents::ask_where_weak(backend.store.as_ref(), &hardware, &unseen).await {
                    Ok(0) => {}
                    Ok(asked) => {
                        tracing::info!(job = %claim.job.id, "{asked} problems asked for where it is weak")
                    }
                    Err(error) => {
                        tracing::warn!(job = %claim.job.id, "nothing asked for where it is weak: {error}")
                    }
                }
                if state == ModelState::Published && backend.auto_snapshot {
                    ask(backend, &claim.job.request).await;
                }
                return Ok(Made::Model(summary.id));
            }
            // Another model was published meanwhile, so the new model is judged again.
            Ok(None) => {}
            Err(error) => sit_out(error, stopping).await.map_err(Failure::Backend)?,
        }
    }
}

/// Compares a model with the published one, and adds it. `None` if it must be judged again.
async fn add(
    backend: &Backend,
    hardware: &Hardware,
    summary: &ModelSummary,
    uploads: &[UploadId],
    unseen_models: Option<&[u8]>,
    kept: &Arc<OnKept>,
) -> anyhow::Result<Option<ModelState>> {
    let store = &backend.store;
    let published = store.published(&summary.hardware, summary.heuristic).await?;
    let file = file_of(backend, published.as_ref()).await?;
    let (kept, beside) = (Arc::clone(kept), published.as_ref().map(|published| published.id.clone()));
    // Never stopped: judging is short, and stopping would lose the long training.
    let goes_on = || true;
    let model_type = summary.model_type;
    let judge = move || {
        let published = published.as_ref().map(|published| (published, file.as_deref()));
        kept.judge(published, &goes_on).of_type(model_type)
    };
    let judged =
        tokio::task::spawn_blocking(judge).await.map(ComparedWithPublished::from).unwrap_or_else(|error| {
            // Another try would panic again. The model is added unpublished, so that an administrator can
            // look at it.
            ComparedWithPublished {
                beside,
                publish: false,
                why: format!("it could not be compared: {error}"),
                changes: Vec::new(),
            }
        });
    Ok(store.add_judged_model(summary, hardware, uploads, unseen_models, &judged, Now::read()).await?)
}

/// The file of the published model; `None` if there is no such model, or its file is missing.
async fn file_of(backend: &Backend, published: Option<&ModelSummary>) -> Result<Option<Bytes>, BlobError> {
    let Some(published) = published else { return Ok(None) };
    if backend.blobs.size(BlobKind::Model, &published.digest).await?.is_none() {
        return Ok(None);
    }
    backend.blobs.get(BlobKind::Model, &published.digest).await.map(Some)
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Damaged(damaged) => damaged.into(),
            other => Self::Backend(other.into()),
        }
    }
}

impl From<Damaged> for Failure {
    fn from(error: Damaged) -> Self {
        Self::Failed(error.to_string())
    }
}

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
async fn freeze(
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
async fn ask(backend: &Backend, training: &JobRequest) {
    let now = Now::read();
    let request = JobRequest::new(JobKind::Snapshot, training.heuristic, training.hardware.clone());
    let hardware = &training.hardware;
    let queued = match crate::jobs::trainings::job(request, true, now) {
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
