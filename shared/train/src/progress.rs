//! What a training reports while it runs.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// One step that is reported.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    Epoch {
        /// `fold 1 of 4` or `final`.
        phase: String,
        /// How many networks the whole training learns, several of them at a time.
        phases: usize,
        /// From 1.
        epoch: usize,
        epochs: usize,
        /// Mean over the epoch's steps.
        loss: f32,
    },
    /// A part of a long epoch is done: a chance to stop.
    PartOfEpoch,
    /// A network is done. A [`Checkpoint`](crate::Checkpoint) that holds it lets a later run go on from there.
    Learnt { phase: String, weights: Vec<f32> },
}

/// How far a training has come, from its reports.
#[derive(Debug, Clone, Default)]
pub struct Share {
    of_phases: BTreeMap<String, f64>,
}

impl Share {
    /// The share of the whole work that is done, between 0 and 1; `None` if a step does not change it.
    pub fn after(&mut self, step: &Progress) -> Option<f64> {
        let Progress::Epoch { phase, phases, epoch, epochs, .. } = step else { return None };
        self.of_phases.insert(phase.clone(), *epoch as f64 / *epochs as f64);
        Some((self.of_phases.values().sum::<f64>() / *phases as f64).min(1.0))
    }
}

/// Takes the reports, and can stop the training.
pub(crate) type Observer<'a> = &'a mut dyn FnMut(&Progress) -> ControlFlow<()>;

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
        assert_eq!(share.after(&Progress::Learnt { phase: "a".to_owned(), weights: Vec::new() }), None);
    }
}
