//! The network while it is trained.

use candle_core::backprop::GradStore;
use candle_core::{Device, Tensor, Var};
use diode_model::{COLUMN_COUNT, Layer, Network};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use crate::TrainError;
use crate::normalise::Normalisation;

/// Gradients longer than this are shortened to it.
const MAX_GRADIENT: f64 = 5.0;

/// Candle splits operations on this many elements over threads that spin while
/// they wait: on a machine with anything else to do, most of the time would go there.
const SPLIT_ELEMENTS: usize = 64 * 1024;

/// Dense layers of candle variables.
pub(crate) struct Trainable {
    layers: Vec<Dense>,
}

struct Dense {
    inputs: usize,
    outputs: usize,
    weights: Var,
    bias: Var,
}

impl Trainable {
    /// Random weights, uniform within one over the root of the inputs, as torch's linear layers begin.
    pub(crate) fn new(hidden: &[usize], rng: &mut ChaCha8Rng) -> Result<Self, TrainError> {
        let mut layers = Vec::new();
        let mut inputs = COLUMN_COUNT;
        for &outputs in hidden.iter().chain(&[1]) {
            let bound = 1.0 / (inputs as f32).sqrt();
            let mut draw =
                |count| -> Vec<f32> { (0..count).map(|_| rng.random_range(-bound..bound)).collect() };
            let weights = Var::from_vec(draw(outputs * inputs), (outputs, inputs), &Device::Cpu)?;
            let bias = Var::from_vec(draw(outputs), outputs, &Device::Cpu)?;
            layers.push(Dense { inputs, outputs, weights, bias });
            inputs = outputs;
        }
        Ok(Self { layers })
    }

    pub(crate) fn variables(&self) -> Vec<Var> {
        self.layers.iter().flat_map(|layer| [layer.weights.clone(), layer.bias.clone()]).collect()
    }

    /// The outputs, one per row of inputs; computed in pieces that one thread handles.
    pub(crate) fn forward(&self, inputs: &Tensor) -> Result<Tensor, TrainError> {
        let widest = self.layers.iter().map(|layer| layer.inputs.max(layer.outputs)).max().unwrap_or(1);
        let (rows, piece) = (inputs.dim(0)?, (SPLIT_ELEMENTS - 1) / widest);
        let outputs = (0..rows)
            .step_by(piece)
            .map(|start| self.forward_piece(inputs.narrow(0, start, piece.min(rows - start))?))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Tensor::cat(&outputs, 0)?)
    }

    fn forward_piece(&self, mut x: Tensor) -> Result<Tensor, TrainError> {
        for (index, layer) in self.layers.iter().enumerate() {
            x = x.matmul(&layer.weights.t()?)?.broadcast_add(&layer.bias)?;
            if index + 1 < self.layers.len() {
                x = x.silu()?;
            }
        }
        Ok(x)
    }

    /// The weights learnt, for use.
    pub(crate) fn finish(self, normalisation: Normalisation) -> Result<Network, TrainError> {
        let layers = self
            .layers
            .into_iter()
            .map(|layer| {
                Ok(Layer {
                    inputs: layer.inputs,
                    outputs: layer.outputs,
                    weights: layer.weights.flatten_all()?.to_vec1()?,
                    bias: layer.bias.to_vec1()?,
                })
            })
            .collect::<Result<_, TrainError>>()?;
        Ok(Network::new(normalisation.mean, normalisation.std, layers)?)
    }
}

/// Shortens a gradient that is too long, keeping its direction.
pub(crate) fn clip(gradients: &mut GradStore, variables: &[Var]) -> Result<(), TrainError> {
    let mut squares = 0.0;
    for gradient in variables.iter().filter_map(|variable| gradients.get(variable)) {
        squares += f64::from(gradient.sqr()?.sum_all()?.to_scalar::<f32>()?);
    }
    let length = squares.sqrt();
    if length > MAX_GRADIENT {
        for variable in variables {
            if let Some(gradient) = gradients.remove(variable) {
                gradients.insert(variable, (gradient * (MAX_GRADIENT / length))?);
            }
        }
    }
    Ok(())
}
