//! A dense layer: its stored form, and its form for the forward pass.

use wide::f32x8;

use crate::vectors::UNROLL;

/// A dense layer as it is stored, with its weights ordered by output.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    pub inputs: usize,
    pub outputs: usize,
    pub weights: Vec<f32>,
    pub bias: Vec<f32>,
}

/// The weights in groups of [`UNROLL`] outputs, input by input.
#[derive(Debug, Clone)]
pub(crate) struct GroupedLayer {
    pub(crate) outputs: usize,
    inputs: usize,
    pub(crate) bias: Vec<[f32; UNROLL]>,
    pub(crate) weights: Vec<[f32; UNROLL]>,
}

impl GroupedLayer {
    pub(crate) fn new(layer: &Layer) -> Self {
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

    /// Sets the sums to their values before any input: the bias.
    pub(crate) fn start(&self, sums: &mut Vec<f32x8>) {
        sums.clear();
        sums.extend(self.bias.as_flattened().iter().map(|&bias| f32x8::splat(bias)));
    }

    pub(crate) fn starting_sums(&self) -> Vec<f32x8> {
        let mut sums = Vec::new();
        self.start(&mut sums);
        sums
    }

    /// The weights for `count` inputs from `first` on, in the layer's order.
    pub(crate) fn weights_of(&self, first: usize, count: usize) -> Vec<[f32; UNROLL]> {
        self.weights
            .chunks_exact(self.inputs)
            .flat_map(|group| &group[first..first + count])
            .copied()
            .collect()
    }
}
