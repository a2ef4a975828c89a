//! Trains ranking models. An interrupted training goes on where it stopped.

use std::fs::File;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::Path;

use anyhow::Context as _;
use diode_model::AnyModel;
use diode_train::{Checkpoint, Fitted, Plan, Progress, TrainOptions, TrainingSet, fit};

use super::progress::TrainingProgress;
use super::trained::Trained;
use crate::interrupt::Interrupt;
use crate::node::time_of_making;
use crate::output::{self, files};

/// The most bytes of a checkpoint, enough for 30 networks of the largest kind.
const MAX_PARTIAL: u64 = 1 << 30;

/// Trains a network on all problems, and the networks of cross-validation. The file `beside` keeps
/// what is learnt so far.
pub(super) fn train(
    set: &TrainingSet,
    options: TrainOptions,
    folds: usize,
    beside: &Path,
    interrupt: &Interrupt,
) -> anyhow::Result<Trained> {
    let plan = Plan { options, folds, created_at: time_of_making()?, keep_when_stopped: true };
    let mut checkpoint = resumed(beside, Checkpoint::new(set, &plan))?;
    let known = checkpoint.clone();
    let mut progress = TrainingProgress::new();
    let mut unwritten = None;
    let fitted = fit(set, &plan, &known, &mut |step: &Progress| {
        progress.tell(step);
        if let Progress::Learnt { phase, network } = step {
            checkpoint.add(phase.clone(), network.clone());
            unwritten = keep(beside, &checkpoint).err();
        }
        let stop = interrupt.requested() || unwritten.is_some();
        if stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    progress.finish();
    if let Some(error) = unwritten {
        return Err(error);
    }
    let Fitted { model, folds, losses, stopped, .. } = fitted;
    Ok(Trained { model: AnyModel::Ranking(Box::new(model)), folds, losses, stopped })
}

/// The checkpoint of an interrupted training, or a new one. The checkpoint of another training is
/// refused and stays.
fn resumed(path: &Path, fresh: Checkpoint) -> anyhow::Result<Checkpoint> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_PARTIAL).read_to_end(&mut bytes));
    let mut checkpoint = fresh;
    if read.is_err() {
        return Ok(checkpoint);
    }
    checkpoint.resume(&bytes).with_context(|| path.display().to_string())?;
    let networks = output::count(checkpoint.networks(), "network");
    say!("going on from {}, which has {networks}", path.display());
    Ok(checkpoint)
}

fn keep(path: &Path, checkpoint: &Checkpoint) -> anyhow::Result<()> {
    files::write(path, &checkpoint.to_bytes()?)
}
