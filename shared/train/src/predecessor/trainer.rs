//! The training loop of torch-diode's networks.

use std::ops::ControlFlow;

use candle_core::{Device, Tensor};
use candle_nn::{AdamW, Optimizer, ParamsAdamW};
use diode_api::EvaluationReport;
use diode_core::{Config, Heuristic, TorchCheckpoint};
use diode_model::predecessor::{PredecessorMetadata, PredecessorModel};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::PredecessorOptions;
use super::network::{Trainable, decay};
use super::rows::{COLUMNS, Rows, Scale};
use super::schedule::Plateau;
use crate::evaluation::{Judge, Verdict, report};
use crate::fit::training;
use crate::folds::Folds;
use crate::progress::{Observer, Progress};
use crate::{TrainError, TrainingProblem, TrainingSet};

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
        let judged = unseen.map(|problem| Ok(Verdict::of(&judge.judge(set, problem)?)));
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
