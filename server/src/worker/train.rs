//! One training, from a dataset to a model file. It takes long, so it has a thread of its own.

mod networks;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use diode_api::{Epoch, Job, ModelSummary};
use diode_core::hardware::Hardware;
use diode_core::{Dataset, Problem};
use diode_model::ModelError;
use diode_train::{FirstPicks, Progress, Share, TrainError, TrainingSet};
use networks::Network;

use super::publishable::OnKept;
use super::summary::summary;
use crate::store::Now;

/// A model, its file and its results.
pub(super) struct Trained {
    pub(super) summary: ModelSummary,
    pub(super) hardware: Hardware,
    pub(super) bytes: Vec<u8>,
    /// The models of the model's cross-validation, in the form in which the database stores them.
    pub(super) unseen_models: Option<Vec<u8>>,
    /// The model's picks for the problems that are kept for judging.
    pub(super) kept: OnKept,
    /// Problems that the model had not seen, with the share of the best speed that the model's first picks
    /// reach.
    pub(super) unseen: Vec<(Problem, f64)>,
}

/// Why no model was made.
#[derive(Debug)]
pub(super) enum Failure {
    /// This worker must stop. Another worker may do the job.
    Stopped,
    /// The job was cancelled, or another worker has taken over.
    LostClaim,
    /// The job failed, and trying again will not help.
    Failed(String),
    /// The database or the blobs failed. Trying again may help.
    Backend(anyhow::Error),
}

impl From<TrainError> for Failure {
    fn from(error: TrainError) -> Self {
        match error {
            TrainError::Stopped => Self::Stopped,
            other => Self::Failed(other.to_string()),
        }
    }
}

/// Trains a model on all problems of the dataset, except those that are kept for judging. The model's file
/// states how good such models are on problems that they have not seen. The kept problems then judge the model.
/// `diode train --without-kept` does the same and gives the same bytes.
pub(super) fn train(
    dataset: Dataset,
    job: &Job,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(f64, String),
) -> Result<Trained, Failure> {
    let (set, kept) = TrainingSet::from_datasets(&[dataset], job.request.method)?.split_kept()?;
    let mut share = Share::default();
    let mut observe = |progress: &Progress| {
        if let (Some(share), Progress::Epoch { phase, epoch, epochs, loss, .. }) =
            (share.after(progress), progress)
        {
            let (epoch, epochs) = (*epoch as u32, *epochs as u32);
            let said = Epoch { phase: phase.clone(), epoch, epochs, loss: f64::from(*loss) };
            tell(share, said.to_string());
        }
        if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    // The time is rounded down to whole seconds, as on the command line.
    let created_at = Now::read().whole_second().rfc3339();
    let network = Network::learn(&set, &job.request, created_at, &mut observe)?;
    let failed = |error: ModelError| Failure::Failed(error.to_string());
    let bytes = network.to_bytes().map_err(failed)?;
    let unseen_models = network.unseen_models().map_err(failed)?;
    let picks = FirstPicks::of_while(network.predictor(), &kept, &|| !stop.load(Ordering::Relaxed))?;
    let about = network.about().map_err(Failure::Failed)?;
    let found = Some((&job.id, picks.report()));
    let summary = summary(&about, network.predictor().parameters(), &bytes, found);
    let hardware = about.hardware.clone();
    let unseen = network.shares_of_best(&kept, &picks);
    let kept = OnKept { problems: kept, picks };
    Ok(Trained { summary, hardware, bytes, unseen_models, kept, unseen })
}
