//! What training tells whoever waits for it.

use std::ops::ControlFlow;

use crate::TrainError;

/// One step of the work that is worth telling.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    Epoch {
        /// `fold 1 of 4` or `final`.
        phase: String,
        /// From 1.
        epoch: usize,
        epochs: usize,
        /// Mean over the epoch's steps.
        loss: f32,
    },
}

/// Who is told, and may stop the work.
pub(crate) type Observer<'a> = &'a mut dyn FnMut(&Progress) -> ControlFlow<()>;

pub(crate) fn tell(observe: Observer<'_>, progress: &Progress) -> Result<(), TrainError> {
    match observe(progress) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(TrainError::Stopped),
    }
}
