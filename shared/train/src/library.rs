//! The network that predicts the vendor's library, from the problem and the predicted time of the best Triton
//! config.
//!
//! Several networks with one hidden layer are trained from different seeds. The mean of their outputs is
//! again the output of a network with one hidden layer. Only that network is kept.

use candle_core::{Device, Tensor};
use candle_nn::loss::huber;
use diode_core::Config;
use diode_core::stats::median;
use diode_model::features::ProblemFeatures;
use diode_model::{Layer, Model, ModelError, Network, normalise};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::fit::one_cycle;
use crate::network::{Descent, Mlp};
use crate::{TrainError, TrainingProblem, TrainingSet};

/// The least number of problems with a library time for which a network is trained.
const LEAST_PROBLEMS: usize = 24;
const NETWORKS: u64 = 6;
/// How each of the networks is trained.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    pub(crate) hidden: usize,
    pub(crate) steps: usize,
}

const EFFORT: Effort = Effort { hidden: 16, steps: 600 };
const LEARNING_RATE: f64 = 1e-2;
const WEIGHT_DECAY: f64 = 1e-2;
/// Beyond this error of the logarithm, the loss only grows linearly: some library times come from an odd
/// choice of kernel.
const OUTLIER: f64 = 0.1;
/// Brings gradients to the length for which the bound on gradients was chosen.
const LOSS_FACTOR: f64 = 20.0;
/// A column that varies less than this says nothing.
const CONSTANT: f32 = 1e-3;

/// The library's time on one problem, beside a model's first pick.
pub(crate) struct Comparison {
    features: ProblemFeatures,
    /// Whether both round float32 to TF32.
    rounds: bool,
    library_us: f64,
    /// The predicted and the measured time of the first pick.
    predicted_us: f64,
    pick_us: f64,
}

/// The comparisons for the problems of a set that `admit` accepts and that have a library time.
pub(crate) fn comparisons(
    model: &Model,
    set: &TrainingSet,
    admit: impl Fn(&TrainingProblem) -> bool,
) -> Result<Vec<Comparison>, TrainError> {
    let mut comparisons = Vec::new();
    for of in std::iter::once(set).chain(set.related()) {
        let model = model.standing_in_for(of.hardware().clone())?;
        for problem in of.iter().filter(|problem| admit(problem)) {
            let Some(library_us) = problem.library_us else { continue };
            let Some(features) = ProblemFeatures::new(of.facts(), &problem.problem) else { continue };
            let configs: Vec<Config> = of.configs(problem).copied().collect();
            let rounds = configs.iter().all(|config| config.rounds(&problem.problem));
            let predicted = model.predict(&problem.problem, &configs)?;
            let times = predicted.iter().zip(&problem.timings);
            let Some((predicted, pick)) = times.min_by(|a, b| a.0.0.total_cmp(&b.0.0)) else { continue };
            let (predicted_us, pick_us) = (predicted.0, pick.us);
            comparisons.push(Comparison { features, rounds, library_us, predicted_us, pick_us });
        }
    }
    Ok(comparisons)
}

/// Adds to a model a network for the library, and one for the library that rounds float32 to TF32, if there are
/// enough comparisons.
///
/// The network learns the library's time / the pick's measured time, so that it decides well even if the
/// pick's predicted time is wrong. But its output is used with the pick's predicted time. So the targets are
/// multiplied by the median of picks' measured time / predicted time.
pub(crate) fn add_library(
    mut model: Model,
    comparisons: &[&Comparison],
    seed: u64,
) -> Result<Model, TrainError> {
    let (rounding, plain): (Vec<_>, Vec<_>) = comparisons.iter().partition(|one| one.rounds);
    if let Some(library) = library_of(&plain, seed)? {
        model = model.with_library(library)?;
    }
    if let Some(library) = library_of(&rounding, seed)? {
        model = model.with_rounding_library(library)?;
    }
    Ok(model)
}

fn library_of(comparisons: &[&Comparison], seed: u64) -> Result<Option<Network>, TrainError> {
    if comparisons.len() < LEAST_PROBLEMS {
        return Ok(None);
    }
    let mut biases: Vec<f64> = comparisons.iter().map(|one| one.pick_us / one.predicted_us).collect();
    let bias = median(&mut biases).unwrap_or(1.0);
    let rows: Vec<_> =
        comparisons.iter().map(|one| one.features.library_row(one.predicted_us, one.rounds)).collect();
    let target = |one: &&Comparison| (one.library_us / one.pick_us * bias).ln() as f32;
    let targets: Vec<f32> = comparisons.iter().map(target).collect();
    Ok(Some(learn(&rows, &targets, EFFORT, seed)?.rounded_to_half().map_err(ModelError::from)?))
}

/// Learns a number from rows of inputs.
pub(crate) fn learn<const COLUMNS: usize>(
    rows: &[[f32; COLUMNS]],
    targets: &[f32],
    effort: Effort,
    seed: u64,
) -> Result<Network, TrainError> {
    let count = rows.len() as f32;
    let column = |index: usize| rows.iter().map(move |row| row[index]);
    let mean: Vec<f32> = (0..COLUMNS).map(|i| column(i).sum::<f32>() / count).collect();
    let deviation = |i: usize| (column(i).map(|x| (x - mean[i]).powi(2)).sum::<f32>() / count).sqrt();
    let deviations: Vec<f32> = (0..COLUMNS).map(deviation).collect();
    let idle: Vec<bool> = deviations.iter().map(|&deviation| deviation < CONSTANT).collect();
    let std: Vec<f32> =
        deviations.iter().map(|&deviation| if deviation < CONSTANT { 1.0 } else { deviation }).collect();

    let scaled = |row: &[f32; COLUMNS], i: usize| {
        if idle[i] { 0.0 } else { normalise(row[i], mean[i], std[i]) }
    };
    let inputs: Vec<f32> = rows.iter().flat_map(|row| (0..COLUMNS).map(move |i| scaled(row, i))).collect();
    let inputs = Tensor::from_vec(inputs, (rows.len(), COLUMNS), &Device::Cpu)?;
    let targets = Tensor::from_slice(targets, (rows.len(), 1), &Device::Cpu)?;
    let networks = (0..NETWORKS)
        .map(|n| learn_one(&inputs, &targets, &idle, effort, seed.wrapping_add(n)))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Network::new(mean, std, mean_of(&networks, effort.hidden)).map_err(ModelError::from)?)
}

fn learn_one(
    inputs: &Tensor,
    targets: &Tensor,
    idle: &[bool],
    Effort { hidden, steps }: Effort,
    seed: u64,
) -> Result<Vec<Layer>, candle_core::Error> {
    let mlp = Mlp::new(idle, &[hidden], &mut ChaCha8Rng::seed_from_u64(seed))?;
    let mut descent = Descent::new(&mlp, WEIGHT_DECAY)?;
    for step in 0..steps {
        let loss = (huber(&mlp.forward(inputs)?, targets, OUTLIER)? * LOSS_FACTOR)?;
        descent.step(&loss, one_cycle(step, steps, LEARNING_RATE))?;
    }
    mlp.layers()
}

/// One network with the hidden units of all networks. Its output is the mean of their outputs.
fn mean_of(networks: &[Vec<Layer>], of_each: usize) -> Vec<Layer> {
    let share = 1.0 / networks.len() as f32;
    let hidden = networks.len() * of_each;
    let all = |of: fn(&Vec<Layer>) -> &Vec<f32>| networks.iter().flat_map(of).copied().collect::<Vec<f32>>();
    let scaled = |values: Vec<f32>| values.into_iter().map(|value| value * share).collect::<Vec<f32>>();
    vec![
        Layer {
            inputs: networks.first().and_then(|layers| layers.first()).map_or(0, |layer| layer.inputs),
            outputs: hidden,
            weights: all(|layers| &layers[0].weights),
            bias: all(|layers| &layers[0].bias),
        },
        Layer {
            inputs: hidden,
            outputs: 1,
            weights: scaled(all(|layers| &layers[1].weights)),
            bias: vec![scaled(all(|layers| &layers[1].bias)).into_iter().sum()],
        },
    ]
}
