//! A dense layer: its stored form, and its form for the forward pass.

use wide::f32x16;

use crate::vectors::{Dense, UNROLL, Weights, run};

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
