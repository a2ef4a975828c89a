//! Trains torch-diode's networks, to compare them with ours. Layers and recipe are torch-diode's, but three of its
//! mistakes are not repeated.
//!
//! The recipe: the mean square error of ln(ms), with the same weight for all timings; Adam; a learning rate that halves
//! when the validation loss stops falling; and an early end. Unlike in torch-diode, columns are scaled, validation problems
//! are not trained on, and the best weights are kept.

use std::ops::ControlFlow;

use crate::features;
use crate::model::scaled;
use candle_core::{Device, Tensor};
use candle_nn::{AdamW, Optimizer, ParamsAdamW};
use diode_api::EvaluationReport;
use diode_core::{Config, Heuristic, Invalid};
use diode_model::features::featured_tile;
use diode_train::{
    Folds, Judge, Observer, Progress, TrainError, TrainingProblem, TrainingSet, Verdict, report, training,
};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::checkpoint::TorchCheckpoint;
use crate::learner::{Trainable, decay};
use crate::model::{PredecessorMetadata, PredecessorModel};
use crate::network::Architecture;

/// The problems are divided into this many parts. One part is for validation, and one for the figures.
const PARTS: usize = 10;

/// Batches between two chances to stop. They take about a second; an epoch of a large dataset takes minutes.
const BATCHES_PER_PART: u32 = 256;

/// Trains one of torch-diode's networks. The same data, options and machine give the same bytes.
///
/// A tenth of the problems is set apart for the figures, and influences neither the weights nor the end of
/// the training. With fewer than three sizes there are no figures.
pub fn train_predecessor(
    set: &TrainingSet,
    options: &PredecessorOptions,
    created_at: String,
    observe: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
) -> Result<PredecessorModel, TrainError> {
    options.validate()?;
    let folds = Folds::new(set, PARTS, options.seed)?;
    let has_metrics = folds.used().len() > 2;
    let is_validation = |problem: &TrainingProblem| folds.of(problem) == Some(0);
    let is_unseen = |problem: &TrainingProblem| has_metrics && folds.of(problem) == Some(1);

    let rows = Rows::of(set, |problem| !is_validation(problem) && !is_unseen(problem))?;
    let scale = rows.scale();
    let metadata = PredecessorMetadata {
        heuristic: Heuristic::Matmul,
        hardware: set.hardware().clone(),
        ops: set.ops(),
        dtypes: set.dtypes(),
        feature_set: options.architecture.features().name().to_owned(),
        architecture: options.architecture.clone(),
        training: training(set, options.seed, created_at),
        evaluation: None,
    };
    let build = |checkpoint: TorchCheckpoint| {
        PredecessorModel::trained(metadata.clone(), checkpoint, scale.mean.clone(), scale.std.clone())
    };
    let model = build(best_weights(&rows, &scale, options, observe, &|checkpoint| {
        mean_square_error(&build(checkpoint)?, set, &is_validation)
    })?)?;
    if !has_metrics {
        return Ok(model);
    }
    let unseen = set.iter().filter(|problem| is_unseen(problem));
    let verdicts = {
        let mut judge = Judge::new(&model);
        let judged = unseen.map(|problem| Ok(Verdict::new(&judge.judge(set, problem)?)));
        judged.collect::<Result<Vec<_>, TrainError>>()?
    };
    let report = report(&verdicts, "a tenth of the problems, held out");
    // The time is left out, so that the same training gives the same file.
    Ok(model.with_evaluation(EvaluationReport { rank_us_per_problem: 0.0, ..report }))
}

/// The weights with the least validation loss.
fn best_weights(
    rows: &Rows,
    scale: &Scale,
    options: &PredecessorOptions,
    observe: Observer<'_>,
    validate: &dyn Fn(TorchCheckpoint) -> Result<f64, TrainError>,
) -> Result<TorchCheckpoint, TrainError> {
    let mut rng = ChaCha8Rng::seed_from_u64(options.seed);
    let mut network = Trainable::new(&options.architecture, &mut rng)?;
    let variables = network.variables();
    let parameters = ParamsAdamW { lr: options.learning_rate, weight_decay: 0.0, ..ParamsAdamW::default() };
    let mut optimiser = AdamW::new(variables.clone(), parameters)?;
    let mut plateau = Plateau::new(options.learning_rate);
    let mut best = (f64::INFINITY, network.checkpoint()?);
    let mut since_best = 0;
    let mut order: Vec<usize> = (0..rows.len()).collect();
    for epoch in 1..=options.epochs {
        order.shuffle(&mut rng);
        let (mut sum, mut batches) = (0.0_f64, 0_u32);
        // A batch of one row has no variance for the normalisation.
        for picked in order.chunks(options.batch_size).filter(|picked| picked.len() > 1) {
            let (inputs, targets) = rows.batch(picked, scale);
            let inputs = Tensor::from_vec(inputs, (picked.len(), COLUMNS), &Device::Cpu)?;
            let targets = Tensor::from_vec(targets, (picked.len(), 1), &Device::Cpu)?;
            let loss = (network.forward(inputs, &mut rng)? - targets)?.sqr()?.mean_all()?;
            let mut gradients = loss.backward()?;
            decay(&mut gradients, &variables, options.weight_decay)?;
            optimiser.set_learning_rate(plateau.rate);
            optimiser.step(&gradients)?;
            sum += f64::from(loss.to_scalar::<f32>()?);
            batches += 1;
            if batches.is_multiple_of(BATCHES_PER_PART) && observe(&Progress::PartOfEpoch).is_break() {
                return Err(TrainError::Stopped);
            }
        }
        let loss = (sum / f64::from(batches.max(1))) as f32;
        if !loss.is_finite() {
            return Err(TrainError::Diverged { epoch });
        }
        let checkpoint = network.checkpoint()?;
        let validation = validate(checkpoint.clone())?;
        plateau.step(validation);
        if validation < best.0 {
            best = (validation, checkpoint);
            since_best = 0;
        } else {
            since_best += 1;
        }
        let phase = options.architecture.kind().to_owned();
        if observe(&Progress::Epoch { phase, phases: 1, epoch, epochs: options.epochs, loss }).is_break() {
            return Err(TrainError::Stopped);
        }
        if since_best >= options.patience {
            break;
        }
    }
    Ok(best.1)
}

/// The mean square error of ln(ms), over the timings of some problems.
fn mean_square_error(
    model: &PredecessorModel,
    set: &TrainingSet,
    keep: &dyn Fn(&TrainingProblem) -> bool,
) -> Result<f64, TrainError> {
    let (mut sum, mut count) = (0.0, 0);
    for problem in set.iter().filter(|problem| keep(problem)) {
        let configs: Vec<Config> = set.configs(problem).copied().collect();
        for (predicted, timed) in
            model.predict_ln_ms(&problem.problem, &configs)?.iter().zip(&problem.timings)
        {
            sum += (predicted - (timed.us / 1e3).ln()).powi(2);
            count += 1;
        }
    }
    Ok(sum / f64::from(count.max(1)))
}

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

pub(super) const COLUMNS: usize = 36;
/// A column is constant if its deviation is at most this share of its mean.
const CONSTANT: f64 = 1e-6;

/// The timings of some problems.
pub(super) struct Rows {
    features: Vec<[f32; COLUMNS]>,
    /// The logarithms ln(ms).
    targets: Vec<f32>,
}

/// Scales columns to mean 0 and deviation 1.
pub(super) struct Scale {
    pub(super) mean: Vec<f32>,
    pub(super) std: Vec<f32>,
}

impl Rows {
    pub(super) fn of(set: &TrainingSet, keep: impl Fn(&TrainingProblem) -> bool) -> Result<Self, TrainError> {
        let mut rows = Self { features: Vec::with_capacity(set.timings()), targets: Vec::new() };
        for problem in set.iter().filter(|problem| keep(problem)) {
            for (config, timed) in set.configs(problem).zip(&problem.timings) {
                rows.features.push(features::thirty_six(&problem.problem, featured_tile(config)?));
                rows.targets.push((timed.us / 1e3).ln() as f32);
            }
        }
        Ok(rows)
    }

    pub(super) fn len(&self) -> usize {
        self.targets.len()
    }

    pub(super) fn scale(&self) -> Scale {
        let count = self.len().max(1) as f64;
        let mut scale = Scale { mean: Vec::with_capacity(COLUMNS), std: Vec::with_capacity(COLUMNS) };
        for column in 0..COLUMNS {
            let values = || self.features.iter().map(|row| f64::from(row[column]));
            let mean = values().sum::<f64>() / count;
            let deviation = (values().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt();
            let is_constant = deviation <= CONSTANT * mean.abs();
            scale.mean.push(mean as f32);
            scale.std.push(if is_constant { 1.0 } else { deviation as f32 });
        }
        scale
    }

    /// The scaled features of some rows, one row after the other, and their targets.
    pub(super) fn batch(&self, rows: &[usize], scale: &Scale) -> (Vec<f32>, Vec<f32>) {
        let scales = || scale.mean.iter().zip(&scale.std);
        let inputs = rows.iter().flat_map(|&row| {
            self.features[row].iter().zip(scales()).map(|(&value, (&mean, &std))| scaled(value, mean, std))
        });
        (inputs.collect(), rows.iter().map(|&row| self.targets[row]).collect())
    }
}

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
mod training_schedule_tests {
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
