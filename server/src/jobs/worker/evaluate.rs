//! Judges a contributed model by the same rule as the server's own models.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Bytes;
use diode_api::{ModelFigures, ModelSummary};
use diode_core::hardware::Hardware;
use diode_model::Model;
use diode_model::contribution::examine;
use diode_train::{FirstPicks, TrainingSet};
use tokio::sync::watch;

use super::admitted::{Admitted, admit};
use super::train::Failure;
use super::{Progress, file_of, follow};
use crate::backend::Backend;
use crate::blobs::BlobKind;
use crate::jobs::worker::train::OnKept;
use crate::store::{Claim, Now};
use crate::uploads::solutions::StoredSolutions;

/// Judges the model that waits for a job, and stores its figures.
pub(super) async fn evaluate(
    backend: &Backend,
    claim: &Claim,
    stopping: &watch::Receiver<bool>,
) -> Result<(), Failure> {
    let gone = || Failure::Failed("no contributed model waits for this job any more".to_owned());
    let (store, slug) = (&backend.store, &claim.job.request.hardware);
    let model = store.contribution_of_job(&claim.job.id).await?.ok_or_else(gone)?;
    let known = store.hardware(slug).await?;
    let hardware = known.ok_or_else(|| Failure::Failed(format!("no hardware `{slug}`")))?;
    let bytes = backend.blobs.get(BlobKind::Model, &model.digest).await.map_err(passing)?;
    let published = store.published(slug, model.heuristic).await?;
    let file = file_of(backend, published.as_ref()).await.map_err(passing)?;
    let solutions = store.training_data(slug).await?;
    let stop = Arc::new(AtomicBool::new(false));
    let (_tell, progress) =
        watch::channel::<Progress>((0.0, "comparing it with what was measured".to_owned()));
    let judging = tokio::task::spawn_blocking({
        let stop = Arc::clone(&stop);
        move || {
            // Turns false when nobody wants the figures any more.
            let goes_on = || !stop.load(Ordering::Relaxed);
            let figures = figures((hardware, solutions), &bytes, published.as_ref(), file, &goes_on);
            goes_on().then_some(figures)
        }
    });
    let claimed = follow(backend, claim, stopping, &judging, progress, &stop).await;
    let figures = judging.await.map_err(|error| Failure::Failed(format!("it ended abruptly: {error}")))?;
    claimed?;
    let figures = figures.ok_or(Failure::Stopped)?;
    if store.note_figures(&claim.job.id, &figures).await? { Ok(()) } else { Err(gone()) }
}

/// A failure that may pass.
fn passing(error: impl Into<anyhow::Error>) -> Failure {
    Failure::Backend(error.into())
}

/// The result has no meaning once `goes_on` returns false.
fn figures(
    data: (Hardware, StoredSolutions),
    bytes: &[u8],
    published: Option<&ModelSummary>,
    file: Option<Bytes>,
    goes_on: &dyn Fn() -> bool,
) -> ModelFigures {
    let beside = published.map(|published| published.id.clone());
    let in_force = file.as_ref().and_then(|file| Model::from_bytes(file).ok());
    let found = match on_kept(data, in_force.as_ref(), bytes, goes_on) {
        Ok(found) => found,
        Err(why) => {
            return ModelFigures {
                at: Now::read().rfc3339(),
                kept: None,
                beside,
                beside_kept: None,
                speed: None,
                no_worse: false,
                why: format!("it cannot be judged: {why}"),
            };
        }
    };
    let compared = found.judge(published.map(|published| (published, file.as_deref())), goes_on);
    ModelFigures {
        at: Now::read().rfc3339(),
        kept: found.picks.report(),
        beside: compared.beside,
        beside_kept: compared.others.and_then(|others| others.report()),
        speed: compared.speed,
        no_worse: compared.no_worse,
        why: compared.why,
    }
}

/// The problems that are kept for judging and known, and the model's first picks for them.
fn on_kept(
    (hardware, stored): (Hardware, StoredSolutions),
    in_force: Option<&Model>,
    bytes: &[u8],
    goes_on: &dyn Fn() -> bool,
) -> Result<OnKept, String> {
    let model = examine(bytes).map_err(|error| error.to_string())?;
    let Admitted { dataset, judged, .. } = admit(hardware, stored, in_force);
    let set = TrainingSet::from_datasets(&[dataset], None).map_err(|error| error.to_string())?;
    let (_, problems) = set.split_kept().map_err(|error| error.to_string())?;
    let problems = problems.only(|problem| judged.contains(problem));
    let picks = FirstPicks::of_while(&model, &problems, goes_on).map_err(|error| error.to_string())?;
    Ok(OnKept { problems, picks, sample: None })
}
