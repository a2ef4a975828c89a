//! What training tells whoever waits for it.

use std::ops::ControlFlow;

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
    /// A network is done. Who keeps it in a [`Checkpoint`](crate::Checkpoint) can go on from there.
    Learnt { phase: String, weights: Vec<f32> },
}

/// Who is told, and may stop the work.
pub(crate) type Observer<'a> = &'a mut dyn FnMut(&Progress) -> ControlFlow<()>;
