//! One training, from a dataset to a model file. Long work, on a thread of its own.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use diode_core::Dataset;
use diode_core::api::{Epoch, JobRequest};
use diode_model::Model;
use diode_train::{
    Checkpoint, FirstPicks, Plan, Progress, Share, TrainError, TrainOptions, TrainingSet, fit,
};

use super::publishable::OnKept;
use crate::store::Now;

/// A model is judged on problems it has not seen by training this often without
/// a part of them.
const FOLDS: usize = 4;

/// A model and its file.
pub(super) struct Trained {
    pub(super) model: Model,
    pub(super) bytes: Vec<u8>,
    /// How it does on the problems that are kept for judging.
    pub(super) kept: OnKept,
}

/// Why there is no model.
#[derive(Debug)]
pub(super) enum Failure {
    /// This worker is to stop; another may do the job.
    Stopped,
    /// The job was cancelled, or another worker has taken over.
    LostClaim,
    /// The job failed, and trying again will not help.
    Failed(String),
    /// Database or blobs; trying again may help.
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

/// Trains on everything in the dataset but the problems that are kept for judging, states in the model how well
/// such models do on problems they have not seen, and judges it by those that are kept. `diode train
/// --without-kept` does the same and gives the same bytes.
pub(super) fn train(
    dataset: Dataset,
    request: &JobRequest,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(f64, String),
) -> Result<Trained, Failure> {
    let (set, kept) = TrainingSet::from_datasets(&[dataset], request.method)?.split_kept()?;
    let options = TrainOptions { seed: request.seed, ..TrainOptions::default() };
    let folds = if set.problems() < FOLDS { 0 } else { FOLDS };
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
    // In whole seconds, as the command line writes it.
    let created_at = Now::read().whole_second().rfc3339();
    let plan = Plan { options, folds, created_at, keep_when_stopped: false };
    let model = fit(&set, &plan, &Checkpoint::new(&set, &plan), &mut observe)?.model;
    let bytes = model.to_bytes().map_err(|error| Failure::Failed(error.to_string()))?;
    let picks = FirstPicks::of(&model, &kept)?;
    Ok(Trained { model, bytes, kept: OnKept { problems: kept, picks } })
}
