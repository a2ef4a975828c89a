//! A learning rate that halves when the validation loss stops falling.

/// The factor by which the rate is multiplied when the loss stops falling.
const FACTOR: f64 = 0.5;
/// The most epochs without an improvement for which the rate stays the same.
const PATIENCE: usize = 5;
/// An improvement is at least this share of the best loss.
const LEAST_GAIN: f64 = 1e-4;
const LOWEST: f64 = 1e-6;

/// torch's `ReduceLROnPlateau` with torch-diode's settings.
pub(super) struct Plateau {
    pub(super) rate: f64,
    best: f64,
    bad_epochs: usize,
}

impl Plateau {
    pub(super) fn new(rate: f64) -> Self {
        Self { rate, best: f64::INFINITY, bad_epochs: 0 }
    }

    /// Takes the validation loss of an epoch.
    pub(super) fn step(&mut self, loss: f64) {
        if loss < self.best * (1.0 - LEAST_GAIN) {
            self.best = loss;
            self.bad_epochs = 0;
            return;
        }
        self.bad_epochs += 1;
        if self.bad_epochs > PATIENCE {
            self.rate = (self.rate * FACTOR).max(LOWEST);
            self.bad_epochs = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_halves_after_six_epochs_that_bring_nothing() {
        let mut plateau = Plateau::new(0.001);
        plateau.step(1.0);
        // The improvement is too small to count.
        let losses = [0.999_95, 1.0, 1.0, 1.0, 1.0];
        losses.iter().for_each(|&loss| plateau.step(loss));
        assert_eq!(plateau.rate, 0.001);
        plateau.step(1.0);
        assert_eq!(plateau.rate, 0.000_5);
        plateau.step(0.5);
        (0..100).for_each(|_| plateau.step(0.5));
        assert_eq!(plateau.rate, 1e-6);
    }
}
