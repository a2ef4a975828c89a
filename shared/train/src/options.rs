//! The settings of a training. The defaults are the recipe that was tuned on an H200.

use diode_core::Invalid;
use diode_model::Network;

use crate::TrainError;

/// A set is large from this many problems on. Its problems are used in more epochs, and more of them in each
/// step.
const LARGE: usize = 1000;
const EPOCHS_OF_LARGE: usize = 120;
const PROBLEMS_PER_STEP_OF_LARGE: usize = 16;
/// How many values of its own each tile gets in a network of a larger set. In smaller sets too few problems
/// were timed with each tile.
const TILE_VALUES_OF_LARGE: usize = 8;

/// The epochs of a smaller set, unless it is very small.
const EPOCHS: usize = 60;
const PROBLEMS_PER_STEP: usize = 8;

/// The least number of steps: 50 problems take as many in 180 epochs. Small sets get more epochs to reach it.
const MIN_STEPS: usize = 1260;

/// The settings of a training.
#[derive(Debug, Clone, PartialEq)]
pub struct TrainOptions {
    /// How many times every problem is used. `None` for as many as suit the size of the set.
    pub epochs: Option<usize>,
    /// Decides the first weights and every random choice.
    pub seed: u64,
    /// Widths of the hidden layers.
    pub hidden: Vec<usize>,
    /// The highest learning rate of the one-cycle schedule.
    pub learning_rate: f64,
    pub weight_decay: f64,
    /// How many values the network learns for each tile. `None` for as many as suit the size of the set.
    pub tile_values: Option<usize>,
    /// `None` for as many as suit the size of the set.
    pub problems_per_step: Option<usize>,
    /// How many configs of a problem a step draws.
    pub configs_per_problem: usize,
    /// How many of the drawn configs are the fastest ones of the problem.
    pub fastest_per_problem: usize,
}

impl Default for TrainOptions {
    fn default() -> Self {
        Self {
            epochs: None,
            seed: 42,
            hidden: vec![64, 64],
            learning_rate: 8e-3,
            weight_decay: 0.1,
            tile_values: None,
            problems_per_step: None,
            configs_per_problem: 320,
            fastest_per_problem: 96,
        }
    }
}

impl TrainOptions {
    /// The options for a set of this many problems. Its folds are trained with the same options.
    pub(crate) fn for_set(&self, problems: usize) -> Self {
        if problems < LARGE {
            return self.clone();
        }
        Self {
            epochs: self.epochs.or(Some(EPOCHS_OF_LARGE)),
            problems_per_step: self.problems_per_step.or(Some(PROBLEMS_PER_STEP_OF_LARGE)),
            tile_values: self.tile_values.or(Some(TILE_VALUES_OF_LARGE)),
            ..self.clone()
        }
    }

    /// The epochs for this many problems.
    pub(crate) fn epochs_for(&self, problems: usize) -> usize {
        let needed = || EPOCHS.max(MIN_STEPS.div_ceil(self.steps_per_epoch(problems)));
        self.epochs.unwrap_or_else(needed)
    }

    pub(crate) fn steps_per_epoch(&self, problems: usize) -> usize {
        problems.div_ceil(self.problems_per_step())
    }

    pub(crate) fn tile_values(&self) -> usize {
        self.tile_values.unwrap_or(0)
    }

    pub(crate) fn problems_per_step(&self) -> usize {
        self.problems_per_step.unwrap_or(PROBLEMS_PER_STEP)
    }

    /// Refuses settings with which nothing can be trained. Training also checks them itself.
    pub fn validate(&self) -> Result<(), TrainError> {
        let counts = [
            ("epochs", self.epochs.unwrap_or(EPOCHS)),
            ("problems per step", self.problems_per_step()),
            ("configs per problem", self.configs_per_problem),
            ("hidden layers", self.hidden.len()),
        ];
        for (name, value) in counts {
            if value == 0 {
                return Err(TrainError::Options(Invalid::new(name, value, "at least 1")));
            }
        }
        if self.hidden.len() >= Network::MAX_LAYERS {
            let expected = format!("less than {}", Network::MAX_LAYERS);
            return Err(TrainError::Options(Invalid::new("hidden layers", self.hidden.len(), expected)));
        }
        if let Some(width) = self.hidden.iter().find(|&&width| width == 0 || width > Network::MAX_WIDTH) {
            let expected = format!("1 to {}", Network::MAX_WIDTH);
            return Err(TrainError::Options(Invalid::new("hidden width", width, expected)));
        }
        for (name, value) in [("learning rate", self.learning_rate), ("weight decay", self.weight_decay)] {
            if !(0.0..=1.0).contains(&value) {
                return Err(TrainError::Options(Invalid::new(name, value, "a number from 0 to 1")));
            }
        }
        Ok(())
    }
}

/// What a training shall do.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub options: TrainOptions,
    /// The number of folds for cross-validation. With 0 there is none, and the model has no
    /// figures.
    pub folds: usize,
    /// When the model is made, as RFC 3339.
    pub created_at: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_sets_are_seen_more_often() {
        let options = TrainOptions::default();
        assert_eq!(options.epochs_for(209), 60);
        assert_eq!(options.epochs_for(50), 180);
        assert_eq!(options.epochs_for(1), 1260);
        let exact = TrainOptions { epochs: Some(3), ..options };
        assert_eq!((exact.epochs_for(1), exact.epochs_for(209)), (3, 3), "who says a number gets it");
    }

    #[test]
    fn large_sets_take_larger_steps() {
        let options = TrainOptions::default().for_set(1000);
        // The folds of a large set are trained with the options of the set.
        assert_eq!((options.epochs_for(750), options.steps_per_epoch(750)), (120, 47));
        assert_eq!(TrainOptions::default().for_set(999), TrainOptions::default());
        assert_eq!((options.tile_values(), TrainOptions::default().tile_values()), (8, 0));
        let exact = TrainOptions {
            epochs: Some(3),
            problems_per_step: Some(4),
            tile_values: Some(0),
            ..TrainOptions::default()
        };
        assert_eq!(exact.for_set(1000), exact, "who says a number gets it");
    }

    #[test]
    fn useless_options_are_refused() {
        let error = TrainOptions { hidden: vec![64, 0], ..TrainOptions::default() }.validate().unwrap_err();
        assert_eq!(error.to_string(), "hidden width: got 0, expected 1 to 1024");
        assert!(TrainOptions { learning_rate: f64::NAN, ..TrainOptions::default() }.validate().is_err());
    }
}
