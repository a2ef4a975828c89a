//! The training loop of one network.

use std::ops::ControlFlow;

use candle_core::{Device, Tensor};
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::fit::one_cycle;
use crate::loss::Measured;
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
