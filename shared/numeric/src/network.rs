//! The forward pass: inputs are normalised and pass through dense layers with SiLU between them.

use wide::f32x8;

use crate::Misfit;
use crate::layer::{GroupedLayer, Layer};
use crate::vectors::{self, Instructions, UNROLL};

/// Inputs are clamped to this many deviations from the mean. Training data is never further out, so a
/// network's outputs would be useless there.
const FURTHEST: f32 = 8.0;

/// A multi-layer perceptron with one output and the normalisation of its inputs.
#[derive(Debug, Clone)]
pub struct Network {
    mean: Vec<f32>,
    std: Vec<f32>,
    layers: Vec<Layer>,
    grouped: Vec<GroupedLayer>,
    instructions: Instructions,
}

impl PartialEq for Network {
    /// Compares the weights alone, because all else follows from them or from the processor.
    fn eq(&self, other: &Self) -> bool {
        (&self.mean, &self.std, &self.layers) == (&other.mean, &other.std, &other.layers)
    }
}

/// Intermediate values. They are kept from block to block, so that they are allocated once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scratch {
    front: Vec<f32x8>,
    back: Vec<f32x8>,
}

/// A network with its first inputs already taken. They are the same for every config, so their part of the
/// first layer's sums is computed once.
#[derive(Debug, Clone)]
pub(crate) struct Begun<'a> {
    network: &'a Network,
    /// The first layer's sums over the inputs that were taken.
    sums: Vec<f32x8>,
    /// The index of the first input that is not taken yet.
    from: usize,
    /// The first layer's weights for the inputs that are not taken yet.
    weights: Vec<[f32; UNROLL]>,
}

impl Network {
    /// No model of ours is wider or deeper. The limits also bound the work of a prediction.
    pub const MAX_WIDTH: usize = 1024;
    pub const MAX_LAYERS: usize = 8;

    /// A network from weights. Refuses shapes that do not fit together and numbers that are not finite. The
    /// first layer must take one input for each mean.
    pub fn new(mean: Vec<f32>, std: Vec<f32>, layers: Vec<Layer>) -> Result<Self, Misfit> {
        let mut inputs = mean.len();
        check("normalisation.mean", &mean, inputs)?;
        check("normalisation.std", &std, inputs)?;
        if std.iter().any(|&s| s <= 0.0) {
            return Err(refuse("normalisation.std", "a deviation of 0 or less", "only values above 0"));
        }
        if layers.is_empty() || layers.len() > Self::MAX_LAYERS {
            let expected = format!("1 to {}", Self::MAX_LAYERS);
            return Err(refuse("layers", &layers.len().to_string(), &expected));
        }
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
        let grouped = layers.iter().map(GroupedLayer::new).collect();
        Ok(Self { mean, std, layers, grouped, instructions: Instructions::detect() })
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

    pub fn inputs(&self) -> usize {
        self.mean.len()
    }

    /// The number of weights that were learnt.
    pub fn parameters(&self) -> u64 {
        self.layers.iter().map(|l| (l.weights.len() + l.bias.len()) as u64).sum()
    }

    /// The same network with weights rounded to 16-bit floats. A file stores these in half the bytes.
    pub fn rounded_to_half(self) -> Result<Self, Misfit> {
        let rounded =
            |values: Vec<f32>| values.into_iter().map(|v| half::f16::from_f32(v).to_f32()).collect();
        let layers = self.layers.into_iter().map(|layer| Layer {
            weights: rounded(layer.weights),
            bias: rounded(layer.bias),
            ..layer
        });
        Self::new(self.mean, self.std, layers.collect())
    }

    /// The output for one row of inputs that are not normalised.
    pub fn forward_row(&self, row: &[f32]) -> f32 {
        let block: Vec<f32x8> = row.iter().map(|&value| f32x8::splat(value)).collect();
        self.begin(&[], 0).forward(None, &block, &mut Scratch::default()).to_array()[0]
    }

    /// Takes the first inputs, which are not normalised yet. `forward` takes the inputs from `from` on. A
    /// [`Part`] gives `forward` the sums over the inputs between `known` and `from`.
    pub(crate) fn begin(&self, known: &[f32], from: usize) -> Begun<'_> {
        let known: Vec<f32x8> = known.iter().map(|&value| f32x8::splat(value)).collect();
        let mut sums = self.grouped[0].starting_sums();
        if !known.is_empty() {
            for (sum, part) in sums.iter_mut().zip(self.part(0, known.len()).sums(&known)) {
                *sum += part;
            }
        }
        Begun { network: self, sums, from, weights: self.grouped[0].weights_of(from, self.inputs() - from) }
    }

    /// The part of the first layer that takes `count` inputs from `first` on.
    pub(crate) fn part(&self, first: usize, count: usize) -> Part<'_> {
        Part { network: self, first, weights: self.grouped[0].weights_of(first, count) }
    }

    /// Appends the normalised inputs. The first of `columns` is input `first`.
    fn normalised(&self, first: usize, columns: &[f32x8], to: &mut Vec<f32x8>) {
        let scales = self.mean.iter().zip(&self.std).skip(first);
        to.extend(columns.iter().zip(scales).map(|(&column, (&mean, &std))| {
            let scaled = (column - f32x8::splat(mean)) / f32x8::splat(std);
            scaled.fast_clamp(f32x8::splat(-FURTHEST), f32x8::splat(FURTHEST))
        }));
    }
}

/// The part of the first layer that takes some of the inputs.
#[derive(Debug, Clone)]
pub(crate) struct Part<'a> {
    network: &'a Network,
    first: usize,
    weights: Vec<[f32; UNROLL]>,
}

impl Part<'_> {
    /// What a block of these inputs adds to the sums. The inputs are not normalised yet.
    pub(crate) fn sums(&self, columns: &[f32x8]) -> Vec<f32x8> {
        let mut sums = vec![f32x8::ZERO; self.network.grouped[0].bias.len() * UNROLL];
        let mut input = Vec::with_capacity(columns.len());
        self.network.normalised(self.first, columns, &mut input);
        let layer = vectors::Layer { weights: &self.weights, input: &input };
        self.network.instructions.apply(layer, &mut sums);
        sums
    }
}

impl Begun<'_> {
    /// The outputs for a block of the remaining inputs, which are not normalised yet.
    pub(crate) fn forward(
        &self,
        between: Option<&[f32x8]>,
        columns: &[f32x8],
        scratch: &mut Scratch,
    ) -> f32x8 {
        let Network { grouped, instructions, .. } = self.network;
        let Scratch { front, back } = scratch;
        front.clear();
        self.network.normalised(self.from, columns, front);
        back.clear();
        match between {
            Some(between) => back.extend(self.sums.iter().zip(between).map(|(&sum, &part)| sum + part)),
            None => back.extend_from_slice(&self.sums),
        }
        let mut weights = &self.weights;
        for (layer, next) in grouped.iter().zip(&grouped[1..]) {
            instructions.apply(vectors::Layer { weights, input: front }, back);
            back.truncate(layer.outputs);
            instructions.silu(back);
            std::mem::swap(front, back);
            next.start(back);
            weights = &next.weights;
        }
        single(back[0], weights, front)
    }
}

/// The output of the last layer, which has a single output.
fn single(mut sum: f32x8, weights: &[[f32; UNROLL]], input: &[f32x8]) -> f32x8 {
    for (&x, weights) in input.iter().zip(weights) {
        sum += f32x8::splat(weights[0]) * x;
    }
    sum
}

/// Normalises a value with its column's mean and deviation, as the forward pass does.
pub fn normalise(value: f32, mean: f32, std: f32) -> f32 {
    ((value - mean) / std).clamp(-FURTHEST, FURTHEST)
}

fn check(name: &str, values: &[f32], expected: usize) -> Result<(), Misfit> {
    if values.len() != expected {
        return Err(refuse(name, &format!("{} values", values.len()), &format!("{expected}")));
    }
    match values.iter().find(|v| !v.is_finite()) {
        Some(value) => Err(refuse(name, &value.to_string(), "only finite numbers")),
        None => Ok(()),
    }
}

fn refuse(name: &str, given: &str, expected: &str) -> Misfit {
    Misfit { name: name.to_owned(), given: given.to_owned(), expected: expected.to_owned() }
}
