//! The reports of a running training.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use crate::LearntNetwork;

/// One report.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    Epoch {
        /// Which network is trained: `fold 1 of 4` or `final`.
        phase: String,
        /// The number of networks in the whole training. Several are trained at a time.
        phases: usize,
        /// Counts from 1.
        epoch: usize,
        epochs: usize,
        /// The mean loss over the epoch's steps.
        loss: f32,
    },
    /// A part of a long epoch is done. The training can be stopped here.
    PartOfEpoch,
    /// A network is finished. A later run can continue from a [`Checkpoint`](crate::Checkpoint) with it.
    Learnt { phase: String, network: LearntNetwork },
}

/// How far a training has come, computed from its reports.
#[derive(Debug, Clone, Default)]
pub struct Share {
    of_phases: BTreeMap<String, f64>,
}

impl Share {
    /// The share of the whole work that is done, from 0 to 1. `None` if the report does not change it.
    pub fn after(&mut self, step: &Progress) -> Option<f64> {
        let Progress::Epoch { phase, phases, epoch, epochs, .. } = step else { return None };
        self.of_phases.insert(phase.clone(), *epoch as f64 / *epochs as f64);
        Some((self.of_phases.values().sum::<f64>() / *phases as f64).min(1.0))
    }
}

/// Receives the reports, and can stop the training.
pub type Observer<'a> = &'a mut dyn FnMut(&Progress) -> ControlFlow<()>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_only_grows_whatever_the_order_of_phases() {
        let (mut share, mut last) = (Share::default(), 0.0);
        for (phase, epoch) in [("final", 1), ("final", 2), ("a", 1), ("b", 1), ("b", 2), ("a", 2)] {
            let step = Progress::Epoch { phase: phase.to_owned(), phases: 3, epoch, epochs: 2, loss: 0.5 };
            let now = share.after(&step).unwrap();
            assert!(now > last, "{phase} {epoch}: {now}");
            last = now;
        }
        assert_eq!(last, 1.0);
        assert_eq!(
            share.after(&Progress::Learnt { phase: "a".to_owned(), network: LearntNetwork::default() }),
            None
        );
    }
}
