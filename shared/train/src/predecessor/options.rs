//! The settings of torch-diode's trainings.

use diode_core::Invalid;
use diode_model::predecessor::Architecture;

use crate::TrainError;

/// The settings for training one of torch-diode's networks.
#[derive(Debug, Clone, PartialEq)]
pub struct PredecessorOptions {
    pub architecture: Architecture,
    /// The most epochs.
    pub epochs: usize,
    /// The training ends after this many epochs without a better result on the validation problems.
    pub patience: usize,
    pub batch_size: usize,
    pub learning_rate: f64,
    pub weight_decay: f64,
    pub seed: u64,
}

impl PredecessorOptions {
    /// The defaults of torch-diode's command.
    pub fn new(architecture: Architecture) -> Self {
        Self {
            architecture,
            epochs: 100,
            patience: 10,
            batch_size: 64,
            learning_rate: 1e-3,
            weight_decay: 1e-5,
            seed: 42,
        }
    }

    /// Refuses settings with which nothing can be trained. Training also checks them itself.
    pub fn validate(&self) -> Result<(), TrainError> {
        self.architecture.validate()?;
        let counts =
            [("epochs", self.epochs, 1), ("patience", self.patience, 1), ("batch size", self.batch_size, 2)];
        for (name, value, least) in counts {
            if value < least {
                let expected = format!("at least {least}");
                return Err(TrainError::Options(Invalid::new(name, value, expected)));
            }
        }
        for (name, value) in [("learning rate", self.learning_rate), ("weight decay", self.weight_decay)] {
            if !(0.0..=1.0).contains(&value) {
                return Err(TrainError::Options(Invalid::new(name, value, "a number from 0 to 1")));
            }
        }
        Ok(())
    }
}
