//! The forward pass: normalise, then dense layers with SiLU between them.

use wide::f32x8;

use crate::ModelError;
use crate::features::{Block, COLUMN_COUNT};
use crate::math;

/// Outputs computed together, so that every loaded input is used this often.
const UNROLL: usize = 4;

/// How many deviations from the mean an input may be. Training data is never further out, and
/// beyond it a network extrapolates to nonsense.
const FURTHEST: f32 = 8.0;

/// A dense layer as it is stored: the weights of one output after the other.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    pub inputs: usize,
    pub outputs: usize,
    pub weights: Vec<f32>,
    pub bias: Vec<f32>,
}

/// A multi-layer perceptron with the normalisation of its inputs.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    mean: Vec<f32>,
    std: Vec<f32>,
    layers: Vec<Layer>,
    packed: Vec<Packed>,
}

/// Intermediate values, kept between blocks to allocate once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scratch {
    front: Vec<f32x8>,
    back: Vec<f32x8>,
}

impl Network {
    /// Wider or deeper networks are no models of ours; it also bounds the work of one prediction.
    pub const MAX_WIDTH: usize = 1024;
    pub const MAX_LAYERS: usize = 8;

    /// Takes weights, refusing shapes that do not fit together and numbers that are not finite.
    pub fn new(mean: Vec<f32>, std: Vec<f32>, layers: Vec<Layer>) -> Result<Self, ModelError> {
        check("normalisation.mean", &mean, COLUMN_COUNT)?;
        check("normalisation.std", &std, COLUMN_COUNT)?;
        if std.iter().any(|&s| s <= 0.0) {
            return Err(refuse("normalisation.std", "a deviation of 0 or less", "only values above 0"));
        }
        if layers.is_empty() || layers.len() > Self::MAX_LAYERS {
            let expected = format!("1 to {}", Self::MAX_LAYERS);
            return Err(refuse("layers", &layers.len().to_string(), &expected));
        }
        let mut inputs = COLUMN_COUNT;
        for (index, layer) in layers.iter().enumerate() {
            let weight = format!("layers.{index}.weight");
            let last = index + 1 == layers.len();
            if layer.inputs != inputs
                || layer.outputs == 0
                || layer.outputs > Self::MAX_WIDTH
                || (last && layer.outputs != 1)
            {
                let outputs = if last { "1".to_owned() } else { format!("1..{}", Self::MAX_WIDTH) };
                let given = format!("{}×{}", layer.outputs, layer.inputs);
                return Err(refuse(&weight, &given, &format!("{outputs}×{inputs}")));
            }
            check(&weight, &layer.weights, layer.outputs * layer.inputs)?;
            check(&format!("layers.{index}.bias"), &layer.bias, layer.outputs)?;
            inputs = layer.outputs;
        }
        let packed = layers.iter().map(Packed::new).collect();
        Ok(Self { mean, std, layers, packed })
    }

    pub fn mean(&self) -> &[f32] {
        &self.mean
    }

    pub fn std(&self) -> &[f32] {
        &self.std
    }

    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// The outputs for a block of unnormalised features.
    pub(crate) fn forward(&self, block: &Block, scratch: &mut Scratch) -> f32x8 {
        let Scratch { front, back } = scratch;
        front.clear();
        front.extend(block.iter().zip(self.mean.iter().zip(&self.std)).map(|(column, (&mean, &std))| {
            let scaled = (f32x8::from(*column) - f32x8::splat(mean)) / f32x8::splat(std);
            scaled.fast_clamp(f32x8::splat(-FURTHEST), f32x8::splat(FURTHEST))
        }));
        let last = self.packed.len() - 1;
        for (index, layer) in self.packed.iter().enumerate() {
            layer.apply(front, back);
            if index < last {
                for values in back.iter_mut() {
                    *values = math::silu(*values);
                }
            }
            std::mem::swap(front, back);
        }
        front[0]
    }
}

/// Brings a value to its column's scale, as the forward pass does.
pub fn normalise(value: f32, mean: f32, std: f32) -> f32 {
    ((value - mean) / std).clamp(-FURTHEST, FURTHEST)
}

/// A layer as the forward pass reads it: groups of [`UNROLL`] outputs, input by input.
#[derive(Debug, Clone, PartialEq)]
struct Packed {
    outputs: usize,
    inputs: usize,
    bias: Vec<[f32; UNROLL]>,
    weights: Vec<[f32; UNROLL]>,
}

impl Packed {
    fn new(layer: &Layer) -> Self {
        let groups = layer.outputs.div_ceil(UNROLL);
        let mut bias = vec![[0.0; UNROLL]; groups];
        let mut weights = vec![[0.0; UNROLL]; groups * layer.inputs];
        for output in 0..layer.outputs {
            let (group, member) = (output / UNROLL, output % UNROLL);
            bias[group][member] = layer.bias[output];
            for input in 0..layer.inputs {
                weights[group * layer.inputs + input][member] = layer.weights[output * layer.inputs + input];
            }
        }
        Self { outputs: layer.outputs, inputs: layer.inputs, bias, weights }
    }

    /// Sums are named, not indexed: only so do they stay in registers, which is ten times as fast.
    fn apply(&self, input: &[f32x8], output: &mut Vec<f32x8>) {
        output.clear();
        for (bias, weights) in self.bias.iter().zip(self.weights.chunks_exact(self.inputs)) {
            let [mut first, mut second, mut third, mut fourth] = bias.map(f32x8::splat);
            for (&x, w) in input.iter().zip(weights) {
                first += f32x8::splat(w[0]) * x;
                second += f32x8::splat(w[1]) * x;
                third += f32x8::splat(w[2]) * x;
                fourth += f32x8::splat(w[3]) * x;
            }
            output.extend_from_slice(&[first, second, third, fourth]);
        }
        output.truncate(self.outputs);
    }
}

fn check(name: &str, values: &[f32], expected: usize) -> Result<(), ModelError> {
    if values.len() != expected {
        return Err(refuse(name, &format!("{} values", values.len()), &format!("{expected}")));
    }
    match values.iter().find(|v| !v.is_finite()) {
        Some(value) => Err(refuse(name, &value.to_string(), "only finite numbers")),
        None => Ok(()),
    }
}

fn refuse(name: &str, given: &str, expected: &str) -> ModelError {
    ModelError::Tensor { name: name.to_owned(), given: given.to_owned(), expected: expected.to_owned() }
}
