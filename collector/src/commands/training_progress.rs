//! Progress of training, phase by phase.

use crate::progress::Progress;

/// Shows the epochs of the phase that is under way.
pub(super) struct TrainingProgress {
    phase: String,
    shown: Option<Progress>,
}

impl TrainingProgress {
    pub(super) fn new() -> Self {
        Self { phase: String::new(), shown: None }
    }

    pub(super) fn tell(&mut self, step: &diode_train::Progress) {
        let diode_train::Progress::Epoch { phase, epoch, epochs, loss } = step else { return };
        if *phase != self.phase {
            self.finish_phase();
            self.phase.clone_from(phase);
            self.shown = Some(Progress::new(*epochs as u64, "epochs"));
        }
        if let Some(shown) = &mut self.shown {
            shown.set(*epoch as u64, &format!("{phase} · loss {loss:.4}"));
        }
    }

    pub(super) fn finish(mut self) {
        self.finish_phase();
    }

    fn finish_phase(&mut self) {
        if let Some(shown) = self.shown.take() {
            shown.finish();
        }
    }
}
