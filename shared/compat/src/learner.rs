//! One of torch-diode's networks while it is trained.

use crate::checkpoint::{SavedTensor, SavedValues, TorchCheckpoint};
use crate::network::{Architecture, Part};
use candle_core::backprop::GradStore;
use candle_core::{Device, Tensor, Var};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use diode_train::TrainError;

/// The share of values that dropout sets to 0.
const DROPOUT: f32 = 0.2;
/// torch's defaults for batch normalisation.
const EPSILON: f64 = 1e-5;
const MOMENTUM: f32 = 0.1;

pub(super) struct Trainable {
    steps: Vec<Step>,
}

enum Step {
    Dense { name: String, weights: Var, bias: Var },
    Norm(Norm),
    Relu,
    Dropout,
    Keep,
    AddKept,
}

struct Norm {
    name: String,
    weights: Var,
    bias: Var,
    /// Averages over the batches so far, for use after training.
    mean: Vec<f32>,
    variance: Vec<f32>,
}

impl Trainable {
    /// Random weights as in torch-diode: uniform with the variance 2 / (inputs + outputs). Biases are
    /// 0.
    pub(super) fn new(architecture: &Architecture, rng: &mut ChaCha8Rng) -> Result<Self, TrainError> {
        let constant = |value: f32, width: usize| Var::from_vec(vec![value; width], width, &Device::Cpu);
        let mut steps = Vec::new();
        for part in architecture.parts() {
            steps.push(match part {
                Part::Dense { name, inputs, outputs } => {
                    let bound = (6.0 / (inputs + outputs) as f32).sqrt();
                    let weights = (0..inputs * outputs).map(|_| rng.random_range(-bound..bound)).collect();
                    let weights = Var::from_vec(weights, (outputs, inputs), &Device::Cpu)?;
                    Step::Dense { name, weights, bias: constant(0.0, outputs)? }
                }
                Part::Norm { name, width } => Step::Norm(Norm {
                    name,
                    weights: constant(1.0, width)?,
                    bias: constant(0.0, width)?,
                    mean: vec![0.0; width],
                    variance: vec![1.0; width],
                }),
                Part::Relu => Step::Relu,
                Part::Dropout => Step::Dropout,
                Part::Keep => Step::Keep,
                Part::AddKept => Step::AddKept,
            });
        }
        Ok(Self { steps })
    }

    pub(super) fn variables(&self) -> Vec<Var> {
        let of = |step: &Step| match step {
            Step::Dense { weights, bias, .. } | Step::Norm(Norm { weights, bias, .. }) => {
                vec![weights.clone(), bias.clone()]
            }
            Step::Relu | Step::Dropout | Step::Keep | Step::AddKept => Vec::new(),
        };
        self.steps.iter().flat_map(of).collect()
    }

    /// The outputs for a batch of at least two rows, one output per row.
    pub(super) fn forward(&mut self, inputs: Tensor, rng: &mut ChaCha8Rng) -> Result<Tensor, TrainError> {
        let mut x = inputs;
        let mut kept = x.clone();
        for step in &mut self.steps {
            x = match step {
                Step::Dense { weights, bias, .. } => x.matmul(&weights.t()?)?.broadcast_add(bias)?,
                Step::Norm(norm) => norm.forward(&x)?,
                Step::Relu => x.relu()?,
                Step::Dropout => dropout(&x, rng)?,
                Step::Keep => {
                    kept = x.clone();
                    x
                }
                Step::AddKept => (x + &kept)?,
            };
        }
        Ok(x)
    }

    /// The weights so far, under torch's names.
    pub(super) fn checkpoint(&self) -> Result<TorchCheckpoint, TrainError> {
        let mut checkpoint = TorchCheckpoint::default();
        let mut add = |name: String, shape: &[usize], values: Vec<f32>| {
            let tensor = SavedTensor { shape: shape.to_vec(), values: SavedValues::Float32(values) };
            checkpoint.tensors.insert(name, tensor);
        };
        for step in &self.steps {
            let (name, weights, bias) = match step {
                Step::Dense { name, weights, bias } => (name, weights, bias),
                Step::Norm(Norm { name, weights, bias, mean, variance }) => {
                    add(format!("{name}.running_mean"), &[mean.len()], mean.clone());
                    add(format!("{name}.running_var"), &[variance.len()], variance.clone());
                    (name, weights, bias)
                }
                Step::Relu | Step::Dropout | Step::Keep | Step::AddKept => continue,
            };
            for (part, variable) in [("weight", weights), ("bias", bias)] {
                let values = variable.flatten_all()?.to_vec1()?;
                add(format!("{name}.{part}"), variable.dims(), values);
            }
        }
        Ok(checkpoint)
    }
}

impl Norm {
    fn forward(&mut self, x: &Tensor) -> Result<Tensor, TrainError> {
        let rows = x.dim(0)? as f32;
        let mean = x.mean_keepdim(0)?;
        let centred = x.broadcast_sub(&mean)?;
        let variance = centred.sqr()?.mean_keepdim(0)?;
        average(&mut self.mean, &mean, 1.0)?;
        // The average keeps an estimate for all data, not the batch's own variance.
        average(&mut self.variance, &variance, rows / (rows - 1.0))?;
        let scaled = centred.broadcast_div(&(variance + EPSILON)?.sqrt()?)?;
        Ok(scaled.broadcast_mul(&self.weights)?.broadcast_add(&self.bias)?)
    }
}

fn average(running: &mut [f32], batch: &Tensor, factor: f32) -> Result<(), TrainError> {
    let batch: Vec<f32> = batch.flatten_all()?.to_vec1()?;
    for (running, value) in running.iter_mut().zip(batch) {
        *running += MOMENTUM * (value * factor - *running);
    }
    Ok(())
}

fn dropout(x: &Tensor, rng: &mut ChaCha8Rng) -> Result<Tensor, TrainError> {
    let kept = 1.0 / (1.0 - DROPOUT);
    let mask: Vec<f32> =
        (0..x.elem_count()).map(|_| if rng.random::<f32>() < DROPOUT { 0.0 } else { kept }).collect();
    Ok((x * Tensor::from_vec(mask, x.shape(), &Device::Cpu)?)?)
}

/// Adds the weights, times the decay, to their gradients. torch's Adam does the same for weight decay.
pub(super) fn decay(gradients: &mut GradStore, variables: &[Var], decay: f64) -> Result<(), TrainError> {
    for variable in variables {
        if let Some(gradient) = gradients.remove(variable) {
            gradients.insert(variable, (gradient + (variable.as_tensor().detach() * decay)?)?);
        }
    }
    Ok(())
}
