//! The training loop of one network.

use std::ops::ControlFlow;

use candle_core::{D, Device, Tensor};
use candle_nn::ops::{log_softmax, softmax};
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::fit::one_cycle;
use crate::network::{Descent, Mlp, TileRows};
use crate::prepared::TrainingRows;
use crate::{TrainError, TrainOptions};

/// A network, and whether it was trained to the end.
pub(crate) struct Learnt {
    pub(crate) mlp: Mlp,
    pub(crate) complete: bool,
}

/// The share of a step's rows that do without the values of their tiles, so that the network also predicts
/// well for tiles that have none.
const WITHOUT_VALUES: f64 = 0.1;

/// A step draws equally many rows of each problem. Beside problems with more rows than this, the rows of other
/// problems would be drawn many times over. So problems with few rows are a part of their own.
const FEW_ROWS: usize = 32;

fn has_few_rows(problem: &&TrainingRows) -> bool {
    problem.rows() <= FEW_ROWS
}

/// Trains one network, with values for so many tiles. The result has the weights of the epoch with the least
/// loss, also if the training is stopped. Since the learning rate falls, that is usually one of the last epochs.
pub(crate) fn learn(
    problems: &[&TrainingRows],
    idle: &[bool],
    tiles: usize,
    options: &TrainOptions,
    mut tell: impl FnMut(usize, usize, f32) -> ControlFlow<()>,
) -> Result<Learnt, TrainError> {
    let mlp = Mlp::untrained(idle, tiles, options)?;
    let mut rng = ChaCha8Rng::seed_from_u64(options.seed.wrapping_add(1));
    let mut descent = Descent::new(&mlp, options.weight_decay)?;
    let rows = [false, true].map(|few| {
        let of = problems.iter().filter(|problem| has_few_rows(problem) == few);
        let most = of.map(|problem| problem.rows()).max().unwrap_or(0);
        (options.configs_per_problem.min(most), options.fastest_per_problem)
    });
    let epochs = options.epochs_for(problems.len());
    let steps_per_epoch = options.steps_per_epoch(problems.len());
    let steps = epochs * steps_per_epoch;
    let mut order: Vec<usize> = (0..problems.len()).collect();
    let mut best = (f32::INFINITY, mlp.weights()?);
    let mut step = 0;
    let mut complete = true;
    for epoch in 1..=epochs {
        order.shuffle(&mut rng);
        let mut losses = 0.0;
        for picked in order.chunks(options.problems_per_step()) {
            let drawn = picked.iter().map(|&index| problems[index]);
            let (few, many): (Vec<_>, Vec<_>) = drawn.partition(has_few_rows);
            let mut loss = Tensor::new(0.0_f32, &Device::Cpu)?;
            for (drawn, rows) in [many, few].iter().zip(rows) {
                if !drawn.is_empty() {
                    let part = Part::draw(drawn, rows, mlp.has_tile_values(), &mut rng)?;
                    loss = (loss + (part.loss(&mlp)? * (drawn.len() as f64 / picked.len() as f64))?)?;
                }
            }
            descent.step(&loss, one_cycle(step, steps, options.learning_rate))?;
            losses += loss.to_scalar::<f32>()?;
            step += 1;
        }
        let loss = losses / steps_per_epoch as f32;
        let weights = mlp.weights()?;
        if !(loss.is_finite() && weights.iter().all(|weight| weight.is_finite())) {
            return Err(TrainError::Diverged { epoch });
        }
        if loss <= best.0 {
            best = (loss, weights);
        }
        if tell(epoch, epochs, loss).is_break() {
            complete = false;
            break;
        }
    }
    mlp.set_weights(&best.1)?;
    Ok(Learnt { mlp, complete })
}

/// A part of what one step learns from: some rows of each of some problems.
struct Part {
    inputs: Tensor,
    /// The tiles of the rows, if the network has values for tiles.
    tiles: Option<TileRows>,
    measured: Measured,
}

impl Part {
    /// Draws equally many rows of each problem: its fastest rows first, then random ones.
    fn draw(
        problems: &[&TrainingRows],
        (rows, fastest): (usize, usize),
        with_tiles: bool,
        rng: &mut ChaCha8Rng,
    ) -> Result<Self, TrainError> {
        let shape = (problems.len() * rows, problems.first().map_or(0, |problem| problem.width()));
        let mut inputs = Vec::with_capacity(shape.0 * shape.1);
        let mut picked = Vec::with_capacity(problems.len());
        for &problem in problems {
            let fastest = fastest.min(problem.rows()).min(rows);
            let rest = (fastest..rows).map(|_| rng.random_range(0..problem.rows()));
            let rows: Vec<usize> = (0..fastest).chain(rest).collect();
            rows.iter().for_each(|&row| inputs.extend_from_slice(problem.row(row)));
            picked.push((problem, rows));
        }
        let inputs = Tensor::from_vec(inputs, shape, &Device::Cpu)?;
        let tiles = with_tiles.then(|| {
            let tiles = picked.iter().flat_map(|(problem, rows)| rows.iter().map(|&row| problem.tiles[row]));
            let kept = (0..shape.0).map(|_| if rng.random_bool(WITHOUT_VALUES) { 0.0 } else { 1.0 });
            TileRows::new(tiles.collect(), kept.collect())
        });
        let tiles = tiles.transpose()?;
        Ok(Self { inputs, tiles, measured: Measured::new(&picked)? })
    }

    fn loss(&self, mlp: &Mlp) -> Result<Tensor, TrainError> {
        Ok(self.measured.loss(&mlp.forward_tiles(&self.inputs, self.tiles.as_ref())?)?)
    }
}

/// The weight of a timing falls with this power of its time / the best time.
const WEIGHT_POWER: f64 = 2.0;
/// If a config's log time is greater than another's by this, its share of the measured distribution is 1/e of
/// the other's share.
const MEASURED_TEMPERATURE: f64 = 0.03;
/// The same distance for predicted times. It is wider because predicted times have errors.
const PREDICTED_TEMPERATURE: f64 = 0.05;
const TIME_FACTOR: f64 = 10.0;
const ORDER_FACTOR: f64 = 0.5;

/// The measured times of a step's configs, with a row per problem, and the loss that they give.
///
/// The loss has a part for the times and a part for the order of near-best configs. The part for times is a mean square
/// error of logarithms, in which fast configs have more weight. The part for the order is the Kullback–Leibler
/// divergence between two distributions: a softmax over predicted times and a softmax over measured times. Both are per
/// problem. A step takes the mean over its problems.
///
/// The order only compares configs of one problem, which were all timed by one method. So problems of a method that is
/// not predicted teach the order, but no times.
pub(crate) struct Measured {
    ln_us: Tensor,
    ln_base: Tensor,
    /// How much the times of each problem count.
    time_factors: Tensor,
}

impl Measured {
    /// Takes equally many rows of each problem.
    pub(crate) fn new(picked: &[(&TrainingRows, Vec<usize>)]) -> candle_core::Result<Self> {
        let rows = picked.first().map_or(0, |(_, rows)| rows.len());
        let gather = |values: fn(&TrainingRows) -> &Vec<f32>| {
            let all = picked.iter().flat_map(|(problem, rows)| rows.iter().map(|&row| values(problem)[row]));
            Tensor::from_vec(all.collect(), (picked.len(), rows), &Device::Cpu)
        };
        let factor = |problem: &TrainingRows| if problem.times_count { TIME_FACTOR } else { 0.0 };
        let factors: Vec<f32> = picked.iter().map(|(problem, _)| factor(problem) as f32).collect();
        Ok(Self {
            ln_us: gather(|problem| &problem.ln_us)?,
            ln_base: gather(|problem| &problem.ln_base)?,
            time_factors: Tensor::from_vec(factors, (picked.len(), 1), &Device::Cpu)?,
        })
    }

    /// The loss of a network's outputs for these rows.
    pub(crate) fn loss(&self, outputs: &Tensor) -> candle_core::Result<Tensor> {
        // The network's outputs are logarithms of time / base time.
        let ln_us = (outputs.reshape(self.ln_us.shape())? + &self.ln_base)?;
        let weights =
            softmax(&(&self.ln_us * -WEIGHT_POWER)?, D::Minus1)?.broadcast_mul(&self.time_factors)?;
        let times = ((&ln_us - &self.ln_us)?.sqr()? * weights)?.sum_all()?;

        let measured = log_softmax(&(&self.ln_us / -MEASURED_TEMPERATURE)?, D::Minus1)?;
        let predicted = log_softmax(&(ln_us / -PREDICTED_TEMPERATURE)?, D::Minus1)?;
        let order = ((&measured - predicted)? * measured.exp()?)?.sum_all()?;
        (times + order * ORDER_FACTOR)? / self.ln_us.dim(0)? as f64
    }
}

#[cfg(test)]
mod loss_tests {
    use candle_core::Var;

    use super::*;

    fn problem(times_count: bool) -> TrainingRows {
        let us = [10.0_f32, 10.4, 13.0, 40.0];
        TrainingRows {
            inputs: Vec::new(),
            ln_us: us.iter().map(|us| us.ln()).collect(),
            ln_base: vec![2.0, 2.0, 2.5, 2.0],
            tiles: Vec::new(),
            times_count,
        }
    }

    /// The loss for one problem's outputs, and its gradient.
    fn loss(times_count: bool, outputs: [f32; 4]) -> (f32, Vec<f32>) {
        let measured = Measured::new(&[(&problem(times_count), vec![0, 1, 2, 3])]).unwrap();
        let outputs = Var::from_slice(&outputs, (4, 1), &Device::Cpu).unwrap();
        let loss = measured.loss(&outputs).unwrap();
        let slopes = loss.backward().unwrap().get(&outputs).unwrap().flatten_all().unwrap();
        (loss.to_scalar().unwrap(), slopes.to_vec1().unwrap())
    }

    #[test]
    fn the_loss_is_what_its_definition_gives() {
        let (outputs, problem) = ([0.31_f32, 0.35, 0.1, 1.6], problem(true));
        let predicted: Vec<f64> =
            outputs.iter().zip(&problem.ln_base).map(|(o, b)| f64::from(o + b)).collect();
        let measured: Vec<f64> = problem.ln_us.iter().map(|&us| f64::from(us)).collect();
        let shares = |logs: &[f64], factor: f64| {
            let powers: Vec<f64> = logs.iter().map(|log| (log * factor).exp()).collect();
            let sum: f64 = powers.iter().sum();
            powers.into_iter().map(move |power| power / sum).collect::<Vec<f64>>()
        };
        let weights = shares(&measured, -2.0);
        let (p, q) = (shares(&measured, -1.0 / 0.03), shares(&predicted, -1.0 / 0.05));
        let row = |i: usize| {
            10.0 * weights[i] * (predicted[i] - measured[i]).powi(2) + 0.5 * p[i] * (p[i] / q[i]).ln()
        };
        let expected: f64 = (0..4).map(row).sum();
        let got = f64::from(loss(true, outputs).0);
        assert!((got - expected).abs() < 1e-4 * expected, "{got}, not {expected}");
    }

    #[test]
    fn slopes_are_those_of_the_loss() {
        for times_count in [true, false] {
            let outputs = [0.31, 0.35, 0.1, 1.6];
            let (_, slopes) = loss(times_count, outputs);
            for (row, &got) in slopes.iter().enumerate() {
                let at = |step: f32| {
                    let mut moved = outputs;
                    moved[row] += step;
                    f64::from(loss(times_count, moved).0)
                };
                let expected = (at(2e-3) - at(-2e-3)) / 4e-3;
                let got = f64::from(got);
                assert!(
                    (got - expected).abs() < 0.02 * expected.abs() + 0.01,
                    "{row}: {got}, not {expected}"
                );
            }
        }
    }

    #[test]
    fn only_the_order_counts_of_times_taken_otherwise() {
        let problem = problem(true);
        let right = [0, 1, 2, 3].map(|row| problem.ln_us[row] - problem.ln_base[row]);
        let change =
            |times_count| loss(times_count, right.map(|output| output + 1.0)).0 - loss(times_count, right).0;
        assert!((change(true) - 10.0).abs() < 1e-3);
        assert!(change(false).abs() < 1e-3);
    }
}
