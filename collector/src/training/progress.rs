//! The progress of a training, over all of its networks.

use diode_train::Share;

use crate::output::progress::Progress;

/// Shows how much of the training is done.
pub(crate) struct TrainingProgress {
    share: Share,
    shown: Progress,
}

impl TrainingProgress {
    pub(crate) fn new() -> Self {
        Self { share: Share::default(), shown: Progress::new(100, "%") }
    }

    pub(crate) fn tell(&mut self, step: &diode_train::Progress) {
        let Some(share) = self.share.after(step) else { return };
        let diode_train::Progress::Epoch { phase, epoch, epochs, loss, .. } = step else { return };
        let message = format!("{phase}, epoch {epoch} of {epochs} · loss {loss:.4}");
        self.shown.set((100.0 * share) as u64, &message);
    }

    pub(crate) fn finish(self) {
        self.shown.finish();
    }
}
