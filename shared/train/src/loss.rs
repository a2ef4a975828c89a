//! The loss: how far times are off, and how far the order of the near-best is off.
//!
//! Times: a mean square error of log times, weighted towards fast configs.
//! Order: the Kullback–Leibler divergence of a softmax over predicted times from
//! one over measured times. Both are per problem; a step takes the mean of its problems.

use candle_core::{D, Device, Tensor};

use crate::TrainError;

/// How fast the weight of a timing falls: with its time over the best to this power.
const WEIGHT_POWER: f64 = 2.0;
/// Log-time distance at which a config's share among the measured falls to 1/e …
const MEASURED_TEMPERATURE: f64 = 0.03;
/// … and among the predicted, wider since predictions err.
const PREDICTED_TEMPERATURE: f64 = 0.05;
const TIME_FACTOR: f64 = 10.0;
const ORDER_FACTOR: f64 = 0.5;

/// What a batch's outputs should be.
pub(crate) struct Targets {
    rows: usize,
    problems: usize,
    /// Log time over base: the outputs wanted.
    outputs: Vec<f32>,
    ln_base: Vec<f32>,
    /// Per problem they sum to 1.
    weights: Vec<f32>,
    shares: Vec<f32>,
    /// The sum of share · ln share, which makes the divergence 0 at its least.
    negative_entropy: f64,
}

impl Targets {
    pub(crate) fn with_capacity(rows: usize, count: usize) -> Self {
        let column = || Vec::with_capacity(count);
        Self {
            rows,
            problems: 0,
            outputs: column(),
            ln_base: column(),
            weights: column(),
            shares: column(),
            negative_entropy: 0.0,
        }
    }

    /// Adds a problem: for each row the log times over the best, alone, and of the base.
    pub(crate) fn push_problem(&mut self, rows: impl Iterator<Item = (f64, f64, f64)>) {
        let (mut weights, mut shares) = (Vec::new(), Vec::new());
        for (over_best, time, base) in rows {
            self.outputs.push((time - base) as f32);
            self.ln_base.push(base as f32);
            weights.push((-WEIGHT_POWER * over_best).exp());
            shares.push((-over_best / MEASURED_TEMPERATURE).exp());
        }
        normalise(&mut weights);
        normalise(&mut shares);
        self.negative_entropy += shares.iter().filter(|&&p| p > 0.0).map(|p| p * p.ln()).sum::<f64>();
        self.weights.extend(weights.iter().map(|&w| w as f32));
        self.shares.extend(shares.iter().map(|&p| p as f32));
        self.problems += 1;
    }

    /// The loss of outputs of shape `[problems × rows, 1]`.
    pub(crate) fn loss(self, outputs: &Tensor) -> Result<Tensor, TrainError> {
        let shape = (self.problems, self.rows);
        let tensor = |values: Vec<f32>| Tensor::from_vec(values, shape, &Device::Cpu);
        let outputs = outputs.reshape(shape)?;
        let errors = (&outputs - tensor(self.outputs)?)?.sqr()?;
        let time = (errors * tensor(self.weights)?)?.sum_all()?;
        let scores = ((outputs + tensor(self.ln_base)?)? * (-1.0 / PREDICTED_TEMPERATURE))?;
        let ln_shares = candle_nn::ops::log_softmax(&scores, D::Minus1)?;
        let cross_entropy = (ln_shares * tensor(self.shares)?)?.sum_all()?;
        let order = (self.negative_entropy - cross_entropy)?;
        let mean = 1.0 / self.problems as f64;
        Ok(((time * (TIME_FACTOR * mean))? + (order * (ORDER_FACTOR * mean))?)?)
    }
}

fn normalise(values: &mut [f64]) {
    let sum: f64 = values.iter().sum();
    for value in values {
        *value /= sum;
    }
}
