//! The training loop.

use std::ops::ControlFlow;

use candle_nn::{AdamW, Optimizer, ParamsAdamW};
use diode_core::Heuristic;
use diode_model::features::ProblemFeatures;
use diode_model::{FEATURE_SET, Metadata, Model, Network, Training};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::batch::Sampler;
use crate::network::{Trainable, clip};
use crate::normalise::Normalisation;
use crate::progress::{Observer, Progress, tell};
use crate::schedule::one_cycle;
use crate::{TrainError, TrainOptions, TrainingSet};

/// Trains a model on all of a set. The same data, options and machine give the
/// same bytes.
///
/// The model comes without an evaluation: training data cannot tell how good it
/// is. [`cross_validate`](crate::cross_validate) can.
pub fn train(
    set: &TrainingSet,
    options: &TrainOptions,
    created_at: String,
    observe: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
) -> Result<Model, TrainError> {
    let network = train_network(set, options, "final", observe)?;
    model(set, options, created_at, network)
}

/// Joins a network with what is known about how it was trained.
pub(crate) fn model(
    set: &TrainingSet,
    options: &TrainOptions,
    created_at: String,
    network: Network,
) -> Result<Model, TrainError> {
    let metadata = Metadata {
        heuristic: Heuristic::Matmul,
        hardware: set.hardware().clone(),
        ops: set.ops(),
        dtypes: set.dtypes(),
        feature_set: FEATURE_SET.to_owned(),
        training: training(set, options.seed, created_at),
        evaluation: None,
        pick_bias: 1.0,
    };
    Ok(Model::new(metadata, network)?)
}

/// How a model that is trained now on a set comes to be.
pub(crate) fn training(set: &TrainingSet, seed: u64, created_at: String) -> Training {
    Training {
        data_digest: set.digest(),
        problems: set.problems() as u64,
        timings: set.timings() as u64,
        method: set.method(),
        seed,
        created_at,
        tool: concat!("diode ", env!("CARGO_PKG_VERSION")).to_owned(),
    }
}

pub(crate) fn train_network(
    set: &TrainingSet,
    options: &TrainOptions,
    phase: &str,
    observe: Observer<'_>,
) -> Result<Network, TrainError> {
    options.validate()?;
    let features: Vec<ProblemFeatures> =
        set.iter().filter_map(|problem| ProblemFeatures::new(set.facts(), &problem.problem)).collect();
    let normalisation = Normalisation::of(set, &features)?;
    let sampler = Sampler::new(set, &features, &normalisation, options);
    let mut rng = ChaCha8Rng::seed_from_u64(options.seed);
    let network = Trainable::new(&options.hidden, &mut rng)?;
    let variables = network.variables();
    let parameters = ParamsAdamW {
        weight_decay: options.weight_decay,
        lr: options.learning_rate,
        ..ParamsAdamW::default()
    };
    let mut optimiser = AdamW::new(variables.clone(), parameters)?;

    let epochs = options.epochs_for(set.problems());
    let steps = epochs * options.steps_per_epoch(set.problems());
    let mut order: Vec<usize> = (0..set.problems()).collect();
    let mut step = 0;
    for epoch in 1..=epochs {
        order.shuffle(&mut rng);
        let mut losses = Vec::new();
        for problems in order.chunks(options.problems_per_step) {
            let batch = sampler.draw(problems, &mut rng)?;
            let loss = batch.targets.loss(&network.forward(&batch.inputs)?)?;
            let mut gradients = loss.backward()?;
            clip(&mut gradients, &variables)?;
            optimiser.set_learning_rate(one_cycle(step, steps, options.learning_rate));
            optimiser.step(&gradients)?;
            losses.push(loss.to_scalar::<f32>()?);
            step += 1;
        }
        let loss = losses.iter().sum::<f32>() / losses.len() as f32;
        if !loss.is_finite() {
            return Err(TrainError::Diverged { epoch });
        }
        tell(observe, &Progress::Epoch { phase: phase.to_owned(), epoch, epochs, loss })?;
    }
    network.finish(normalisation)
}
