//! The forward pass: inputs are normalised and pass through dense layers with SiLU between them.

use wide::f32x16;

use crate::vectors::{Dense, Normalise, Silu, UNROLL, Weights, run};

/// A multi-layer perceptron with one output and the normalisation of its inputs.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    mean: Vec<f32>,
    std: Vec<f32>,
    layers: Vec<Layer>,
    grouped: Vec<GroupedLayer>,
}

/// Intermediate values. They are kept from one forward pass to the next, so that they are allocated once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scratch {
    /// The inputs of the next layer.
    pub(crate) front: Vec<f32x16>,
    /// The sums of the next layer.
    pub(crate) back: Vec<f32x16>,
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
        Ok(Self { mean, std, layers, grouped })
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

    /// Refuses a network with another number of inputs.
    pub fn expect_inputs(&self, expected: usize) -> Result<(), Misfit> {
        if self.inputs() == expected {
            return Ok(());
        }
        Err(refuse("normalisation.mean", &format!("{} values", self.inputs()), &expected.to_string()))
    }

    /// The number of weights that were learnt.
    pub fn parameters(&self) -> u64 {
        self.layers.iter().map(|l| (l.weights.len() + l.bias.len()) as u64).sum()
    }

    /// The same network with weights rounded to 16-bit floats. A file stores these in half the bytes.
    pub fn rounded_to_half(self) -> Result<Self, Misfit> {
        let layers = self.layers.into_iter().map(|layer| Layer {
            weights: halves(layer.weights),
            bias: halves(layer.bias),
            ..layer
        });
        Self::new(self.mean, self.std, layers.collect())
    }

    /// The output for one row of inputs that are not normalised.
    pub fn forward_row(&self, row: &[f32]) -> f32 {
        let front = row.iter().map(|&value| f32x16::splat(value)).collect();
        let mut scratch = Scratch { front, back: self.starting_sums().to_vec() };
        self.part(0, row.len()).forward(&mut scratch).to_array()[0]
    }

    /// The sums of the first layer before any input is taken.
    pub(crate) fn starting_sums(&self) -> &[f32x16] {
        &self.grouped[0].bias
    }

    /// The part of the network that takes `count` inputs from `first` on.
    pub(crate) fn part(&self, first: usize, count: usize) -> Part<'_> {
        let inputs = first..first + count;
        Part {
            mean: &self.mean[inputs.clone()],
            std: &self.std[inputs],
            weights: self.grouped[0].weights_from(first),
            network: self,
        }
    }
}

/// The part of a network that takes some of the inputs.
#[derive(Debug, Clone)]
pub(crate) struct Part<'a> {
    mean: &'a [f32],
    std: &'a [f32],
    /// The first layer's weights for these inputs.
    weights: Weights<'a>,
    network: &'a Network,
}

impl Part<'_> {
    /// What these inputs add to the sums of the first layer. The inputs are not normalised yet.
    pub(crate) fn sums(&self, input: &mut [f32x16]) -> Vec<f32x16> {
        let mut sums = vec![f32x16::ZERO; self.network.starting_sums().len()];
        self.add_to(&mut sums, input);
        sums
    }

    pub(crate) fn inputs(&self) -> usize {
        self.mean.len()
    }

    /// Adds these inputs to the sums of the first layer. The inputs are not normalised yet.
    pub(crate) fn add_to(&self, sums: &mut [f32x16], input: &mut [f32x16]) {
        run(Normalise { columns: input, mean: self.mean, std: self.std });
        run(Dense { weights: self.weights, input, sums });
    }

    /// The outputs of the network. Its last inputs are in front, and are not normalised yet. The first layer's sums
    /// of all other inputs are in back.
    pub(crate) fn forward(&self, Scratch { front, back }: &mut Scratch) -> f32x16 {
        self.add_to(back, front);
        let layers = &self.network.grouped;
        for (layer, next) in layers.iter().zip(&layers[1..]) {
            back.truncate(layer.outputs);
            run(Silu(back));
            std::mem::swap(front, back);
            back.clone_from(&next.bias);
            next.add_to(back, front);
        }
        back[0]
    }
}

/// The values rounded to 16-bit floats.
pub fn halves(values: Vec<f32>) -> Vec<f32> {
    values.into_iter().map(|value| half::f16::from_f32(value).to_f32()).collect()
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

/// A dense layer as it is stored, with its weights ordered by output.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    pub inputs: usize,
    pub outputs: usize,
    pub weights: Vec<f32>,
    pub bias: Vec<f32>,
}

/// The weights in groups of [`UNROLL`] outputs, input by input.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GroupedLayer {
    pub(crate) outputs: usize,
    inputs: usize,
    /// The sums before any input is added, with zeros up to a whole group.
    pub(crate) bias: Vec<f32x16>,
    weights: Vec<[f32; UNROLL]>,
}

impl GroupedLayer {
    pub(crate) fn new(layer: &Layer) -> Self {
        let groups = layer.outputs.div_ceil(UNROLL);
        let mut bias: Vec<f32x16> = layer.bias.iter().map(|&bias| f32x16::splat(bias)).collect();
        bias.resize(groups * UNROLL, f32x16::ZERO);
        let mut weights = vec![[0.0; UNROLL]; groups * layer.inputs];
        for output in 0..layer.outputs {
            let (group, member) = (output / UNROLL, output % UNROLL);
            for input in 0..layer.inputs {
                weights[group * layer.inputs + input][member] = layer.weights[output * layer.inputs + input];
            }
        }
        Self { outputs: layer.outputs, inputs: layer.inputs, bias, weights }
    }

    /// Adds the layer's inputs to its sums.
    pub(crate) fn add_to(&self, sums: &mut [f32x16], input: &[f32x16]) {
        if self.outputs > 1 {
            return run(Dense { weights: self.weights_from(0), input, sums });
        }
        let products = input.iter().zip(&self.weights).map(|(&x, weights)| f32x16::splat(weights[0]) * x);
        sums[0] = products.fold(sums[0], |sum, product| sum + product);
    }

    /// The weights for the inputs from `first` on.
    pub(crate) fn weights_from(&self, first: usize) -> Weights<'_> {
        Weights { of_all: &self.weights, inputs: self.inputs, first }
    }
}

/// A tensor whose shape or values do not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("tensor `{name}`: got {given}, expected {expected}")]
pub struct Misfit {
    pub name: String,
    pub given: String,
    pub expected: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hidden_layer_may_have_a_single_value() {
        let layer = |inputs, outputs, weight| Layer {
            inputs,
            outputs,
            weights: vec![weight; inputs * outputs],
            bias: vec![0.5; outputs],
        };
        let layers = vec![layer(2, 1, 0.25), layer(1, 13, -2.0), layer(13, 1, 0.125)];
        let network = Network::new(vec![0.0; 2], vec![2.0; 2], layers).unwrap();
        let silu = |x: f64| x / (1.0 + libm::exp(-x));
        let hidden = silu(0.5 + 0.25 * (1.5 - 8.0));
        let expected = 0.5 + 13.0 * 0.125 * silu(0.5 - 2.0 * hidden);
        let output = f64::from(network.forward_row(&[3.0, -100.0]));
        assert!((output - expected).abs() < 1e-6, "{output}, not {expected}");
    }
}
