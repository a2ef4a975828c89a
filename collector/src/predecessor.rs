//! torch-diode, the Python system that Diode succeeds: its commands, its flags, and datasets in its
//! formats.

pub(crate) mod collecting;
pub(crate) mod datasets;
pub(crate) mod flags;
pub(crate) mod judging;

use std::ops::ControlFlow;

use diode_compat::{AnyModel, PredecessorOptions, train_predecessor};
use diode_train::{EpochLoss, Progress, TrainingSet};

use crate::interrupt::Interrupt;
use crate::node::time_of_making;
use crate::training::{Trained, TrainingProgress};

/// Trains one torch-diode network.
pub(crate) fn train(
    set: &TrainingSet,
    options: &PredecessorOptions,
    interrupt: &Interrupt,
) -> anyhow::Result<Trained> {
    let mut progress = TrainingProgress::new();
    let mut losses = Vec::new();
    let model = train_predecessor(set, options, time_of_making()?, &mut |step: &Progress| {
        progress.tell(step);
        if let Progress::Epoch { phase, epoch, loss, .. } = step {
            losses.push(EpochLoss { phase: phase.clone(), epoch: *epoch, loss: *loss });
        }
        if interrupt.requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    progress.finish();
    Ok(Trained { model: AnyModel::Predecessor(Box::new(model)), folds: Vec::new(), losses, stopped: false })
}
