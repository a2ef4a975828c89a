//! A dense layer for eight rows at once.

use wide::f32x8;

/// Outputs that are computed together. A loaded input is used for all of them.
const UNROLL: usize = 4;

/// Weights in the order of the forward pass: groups of [`UNROLL`] outputs, input by input.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Dense {
    inputs: usize,
    outputs: usize,
    bias: Vec<[f32; UNROLL]>,
    weights: Vec<[f32; UNROLL]>,
}

impl Dense {
    /// Takes weights that are ordered by output.
    pub(super) fn new(inputs: usize, weights: &[f32], bias: &[f32]) -> Self {
        let groups = bias.len().div_ceil(UNROLL);
        let mut grouped = Self {
            inputs,
            outputs: bias.len(),
            bias: vec![[0.0; UNROLL]; groups],
            weights: vec![[0.0; UNROLL]; groups * inputs],
        };
        for (output, (&bias, row)) in bias.iter().zip(weights.chunks(inputs)).enumerate() {
            let (group, member) = (output / UNROLL, output % UNROLL);
            grouped.bias[group][member] = bias;
            for (input, &weight) in row.iter().enumerate() {
                grouped.weights[group * inputs + input][member] = weight;
            }
        }
        grouped
    }

    pub(super) fn apply(&self, input: &[f32x8], output: &mut Vec<f32x8>) {
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
