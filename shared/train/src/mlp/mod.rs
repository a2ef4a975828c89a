//! The network while it is trained: outputs and gradients of a small perceptron.
//!
//! Candle computes the same and is what the gradients are tested against. On batches of a few
//! thousand rows and layers of 64 it takes several times as long, most of it to allocate and free.

mod adam;
mod kernel;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

pub(crate) use adam::Adam;
use diode_model::math::exp_of_one;
use kernel::{COLUMNS, Instructions, Product, ROWS};

use crate::TrainOptions;

/// Rows of a batch are filled up to a multiple of this.
pub(crate) const ROW_STEP: usize = ROWS;

/// How many values a row of so many inputs takes: layers are padded with zeros that stay zero.
pub(crate) const fn padded(width: usize) -> usize {
    width.div_ceil(COLUMNS) * COLUMNS
}

/// Dense layers with SiLU between them, and one output.
#[derive(Debug, Clone)]
pub(crate) struct Mlp {
    /// Inputs and hidden widths, as given.
    widths: Vec<usize>,
    /// All of them: per hidden layer the weights, input by input, and the bias; then those of the
    /// output. Padding included.
    pub(crate) weights: Vec<f32>,
    instructions: Instructions,
}

/// Where a layer's weights and its bias begin; the bias has as many values as the layer has outputs.
#[derive(Clone, Copy)]
struct Place {
    weights: usize,
    bias: usize,
    inputs: usize,
    outputs: usize,
}

/// What a forward pass leaves for the backward pass, and the gradient.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scratch {
    /// Per hidden layer: the slope of the activation, and its value.
    slopes: Vec<Vec<f32>>,
    values: Vec<Vec<f32>>,
    transposed: Vec<f32>,
    errors: Vec<f32>,
    errors_below: Vec<f32>,
    pub(crate) outputs: Vec<f32>,
    pub(crate) gradient: Vec<f32>,
}

impl Mlp {
    /// Random weights, uniform within one over the root of the inputs, as torch's linear layers
    /// begin. Inputs that are `idle` in all of the training data get none, so that other values
    /// of theirs change nothing later.
    pub(crate) fn new(idle: &[bool], hidden: &[usize], rng: &mut ChaCha8Rng) -> Self {
        let widths: Vec<usize> = std::iter::once(idle.len()).chain(hidden.iter().copied()).collect();
        let mut weights = Vec::new();
        for (layer, pair) in widths.windows(2).enumerate() {
            let (inputs, outputs) = (pair[0], pair[1]);
            let bound = 1.0 / (inputs as f32).sqrt();
            for input in 0..padded(inputs) {
                let idle = layer == 0 && idle.get(input).is_none_or(|&idle| idle);
                for output in 0..padded(outputs) {
                    let drawn = rng.random_range(-bound..bound);
                    let used = input < inputs && output < outputs && !idle;
                    weights.push(if used { drawn } else { 0.0 });
                }
            }
            weights.extend((0..padded(outputs)).map(|output| {
                let drawn = rng.random_range(-bound..bound);
                if output < outputs { drawn } else { 0.0 }
            }));
        }
        let last = widths[widths.len() - 1];
        let bound = 1.0 / (last as f32).sqrt();
        weights.extend((0..padded(last)).map(|input| {
            let drawn = rng.random_range(-bound..bound);
            if input < last { drawn } else { 0.0 }
        }));
        weights.push(0.0);
        Self { widths, weights, instructions: Instructions::detect() }
    }

    /// What the options begin with.
    pub(crate) fn untrained(idle: &[bool], options: &TrainOptions) -> Self {
        Self::new(idle, &options.hidden, &mut ChaCha8Rng::seed_from_u64(options.seed))
    }

    /// Values per row of inputs.
    pub(crate) fn stride(&self) -> usize {
        padded(self.widths[0])
    }

    fn places(&self) -> Vec<Place> {
        let mut at = 0;
        let mut places: Vec<Place> = self
            .widths
            .windows(2)
            .map(|pair| {
                let (inputs, outputs) = (padded(pair[0]), padded(pair[1]));
                let place = Place { weights: at, bias: at + inputs * outputs, inputs, outputs };
                at = place.bias + outputs;
                place
            })
            .collect();
        let inputs = padded(self.widths[self.widths.len() - 1]);
        places.push(Place { weights: at, bias: at + inputs, inputs, outputs: 1 });
        places
    }

    /// The outputs for rows of [`Self::stride`] values; their number is a multiple of [`ROW_STEP`].
    pub(crate) fn forward(&self, inputs: &[f32], scratch: &mut Scratch) {
        let rows = inputs.len() / self.stride();
        let places = self.places();
        let hidden = places.len() - 1;
        scratch.slopes.resize_with(hidden, Vec::new);
        scratch.values.resize_with(hidden, Vec::new);
        for (index, place) in places[..hidden].iter().enumerate() {
            let (before, after) = scratch.values.split_at_mut(index);
            let (slopes, values) = (&mut scratch.slopes[index], &mut after[0]);
            slopes.resize(rows * place.outputs, 0.0);
            values.resize(rows * place.outputs, 0.0);
            self.instructions.multiply(Product {
                m: rows,
                k: place.inputs,
                n: place.outputs,
                a: if index == 0 { inputs } else { &before[index - 1] },
                a_strides: (place.inputs, 1),
                b: &self.weights[place.weights..place.bias],
                c: slopes,
            });
            let bias = &self.weights[place.bias..place.bias + place.outputs];
            self.instructions.run(
                #[inline(always)]
                || activate(slopes, values, bias),
            );
        }
        let place = places[hidden];
        let weights = &self.weights[place.weights..place.bias];
        let bias = self.weights[place.bias];
        let below = if hidden == 0 { inputs } else { &scratch.values[hidden - 1] };
        scratch.outputs.resize(rows, 0.0);
        let outputs = &mut scratch.outputs;
        self.instructions.run(
            #[inline(always)]
            || {
                for (row, output) in below.chunks_exact(place.inputs).zip(outputs) {
                    let mut sums = [0.0; COLUMNS];
                    for (row, weights) in row.chunks_exact(COLUMNS).zip(weights.chunks_exact(COLUMNS)) {
                        for ((sum, x), w) in sums.iter_mut().zip(row).zip(weights) {
                            *sum += x * w;
                        }
                    }
                    *output = sums.iter().sum::<f32>() + bias;
                }
            },
        );
    }

    /// The gradient of a loss, from its slope in each output of the last forward pass, which had
    /// these inputs.
    pub(crate) fn backward(&self, inputs: &[f32], output_slopes: &[f32], scratch: &mut Scratch) {
        let rows = output_slopes.len();
        let places = self.places();
        let hidden = places.len() - 1;
        let Scratch { slopes, values, transposed, errors, errors_below, gradient, .. } = scratch;
        gradient.resize(self.weights.len(), 0.0);
        let place = places[hidden];
        {
            let weights = &self.weights[place.weights..place.bias];
            let below = if hidden == 0 { inputs } else { &values[hidden - 1] };
            let sums = &mut gradient[place.weights..place.bias];
            sums.fill(0.0);
            self.instructions.run(
                #[inline(always)]
                || {
                    for (row, &slope) in below.chunks_exact(place.inputs).zip(output_slopes) {
                        for (sum, x) in sums.iter_mut().zip(row) {
                            *sum += slope * x;
                        }
                    }
                },
            );
            if hidden > 0 {
                errors.resize(rows * place.inputs, 0.0);
                let rows =
                    errors.chunks_exact_mut(place.inputs).zip(slopes[hidden - 1].chunks_exact(place.inputs));
                self.instructions.run(
                    #[inline(always)]
                    || {
                        for ((errors, slopes), &slope) in rows.zip(output_slopes) {
                            for ((error, weight), slope_here) in errors.iter_mut().zip(weights).zip(slopes) {
                                *error = slope * weight * slope_here;
                            }
                        }
                    },
                );
            }
        }
        gradient[place.bias] = output_slopes.iter().sum();
        for (index, place) in places[..hidden].iter().enumerate().rev() {
            let Place { weights, bias, inputs: width, outputs } = *place;
            self.instructions.multiply(Product {
                m: width,
                k: rows,
                n: outputs,
                a: if index == 0 { inputs } else { &values[index - 1] },
                a_strides: (1, width),
                b: errors,
                c: &mut gradient[weights..bias],
            });
            let sums = &mut gradient[bias..bias + outputs];
            sums.fill(0.0);
            self.instructions.run(
                #[inline(always)]
                || {
                    for row in errors.chunks_exact(outputs) {
                        for (sum, error) in sums.iter_mut().zip(row) {
                            *sum += error;
                        }
                    }
                },
            );
            if index == 0 {
                break;
            }
            transposed.resize(width * outputs, 0.0);
            for input in 0..width {
                for output in 0..outputs {
                    transposed[output * width + input] = self.weights[weights + input * outputs + output];
                }
            }
            errors_below.resize(rows * width, 0.0);
            self.instructions.multiply(Product {
                m: rows,
                k: outputs,
                n: width,
                a: errors,
                a_strides: (outputs, 1),
                b: transposed,
                c: errors_below,
            });
            for (error, slope) in errors_below.iter_mut().zip(&slopes[index - 1]) {
                *error *= slope;
            }
            std::mem::swap(errors, errors_below);
        }
    }

    /// The layers without their padding, as the model stores them.
    pub(crate) fn layers(&self) -> Vec<diode_model::Layer> {
        self.places()
            .into_iter()
            .enumerate()
            .map(|(index, place)| {
                let inputs = self.widths[index];
                let outputs = self.widths.get(index + 1).copied().unwrap_or(1);
                let weights = (0..outputs)
                    .flat_map(|output| (0..inputs).map(move |input| input * place.outputs + output))
                    .map(|at| self.weights[place.weights + at])
                    .collect();
                let bias = self.weights[place.bias..place.bias + outputs].to_vec();
                diode_model::Layer { inputs, outputs, weights, bias }
            })
            .collect()
    }
}

/// Adds the bias and turns sums into the activation's slope and value there.
#[inline(always)]
fn activate(sums: &mut [f32], values: &mut [f32], bias: &[f32]) {
    for (sums, values) in sums.chunks_exact_mut(bias.len()).zip(values.chunks_exact_mut(bias.len())) {
        for ((sum, value), bias) in sums.iter_mut().zip(values).zip(bias) {
            let x = *sum + *bias;
            let gate = 1.0 / (1.0 + exp_of_one(-x));
            *value = x * gate;
            *sum = gate * (1.0 + x * (1.0 - gate));
        }
    }
}

#[cfg(test)]
mod tests;
