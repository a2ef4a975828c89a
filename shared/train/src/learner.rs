//! The training loop of one network.

use std::ops::ControlFlow;

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::loss::Targets;
use crate::mlp::{Adam, Mlp, ROW_STEP, Scratch};
use crate::prepared::{Prepared, STRIDE};
use crate::schedule::one_cycle;
use crate::{TrainError, TrainOptions};

/// A network and whether it was trained to the end.
pub(crate) struct Learnt {
    pub(crate) mlp: Mlp,
    pub(crate) complete: bool,
}

/// Trains one network. It ends with the weights of the epoch that had the least loss, which for
/// the schedule's falling rate is one of the last; so does one that is stopped.
pub(crate) fn learn(
    problems: &[&Prepared],
    idle: &[bool],
    options: &TrainOptions,
    mut tell: impl FnMut(usize, usize, f32) -> ControlFlow<()>,
) -> Result<Learnt, TrainError> {
    let mut mlp = Mlp::untrained(idle, options);
    let mut rng = ChaCha8Rng::seed_from_u64(options.seed.wrapping_add(1));
    let mut adam = Adam::new(mlp.weights.len(), options.weight_decay);
    let mut batch = Batch::new(problems, options);
    let epochs = options.epochs_for(problems.len());
    let steps = epochs * options.steps_per_epoch(problems.len());
    let mut order: Vec<usize> = (0..problems.len()).collect();
    let mut best = (f32::INFINITY, mlp.weights.clone());
    let mut step = 0;
    for epoch in 1..=epochs {
        order.shuffle(&mut rng);
        let mut losses = 0.0;
        for picked in order.chunks(options.problems_per_step) {
            batch.draw(picked.iter().map(|&index| problems[index]), &mut rng);
            mlp.forward(&batch.inputs, &mut batch.scratch);
            losses += batch.loss();
            mlp.backward(&batch.inputs, &batch.slopes, &mut batch.scratch);
            let rate = one_cycle(step, steps, options.learning_rate);
            adam.step(&mut mlp.weights, &batch.scratch.gradient, rate);
            step += 1;
        }
        let loss = losses / options.steps_per_epoch(problems.len()) as f32;
        if !(loss.is_finite() && mlp.weights.iter().all(|weight| weight.is_finite())) {
            return Err(TrainError::Diverged { epoch });
        }
        if loss <= best.0 {
            best.0 = loss;
            best.1.clone_from(&mlp.weights);
        }
        if tell(epoch, epochs, loss).is_break() {
            mlp.weights = best.1;
            return Ok(Learnt { mlp, complete: false });
        }
    }
    mlp.weights = best.1;
    Ok(Learnt { mlp, complete: true })
}

/// What one step sees: some problems, some rows of each. Kept between steps to allocate once.
struct Batch<'a> {
    /// Rows per problem: the same for all.
    rows: usize,
    fastest: usize,
    problems: Vec<(&'a Prepared, Vec<usize>)>,
    inputs: Vec<f32>,
    slopes: Vec<f32>,
    scratch: Scratch,
}

impl<'a> Batch<'a> {
    fn new(problems: &[&Prepared], options: &TrainOptions) -> Self {
        let most = problems.iter().map(|problem| problem.rows()).max().unwrap_or(0);
        let rows = options.configs_per_problem.min(most).next_multiple_of(ROW_STEP);
        Self {
            rows,
            fastest: options.fastest_per_problem,
            problems: Vec::new(),
            inputs: Vec::new(),
            slopes: Vec::new(),
            scratch: Scratch::default(),
        }
    }

    /// Draws each problem's fastest rows, and fills up with random ones.
    fn draw(&mut self, problems: impl Iterator<Item = &'a Prepared>, rng: &mut ChaCha8Rng) {
        self.inputs.clear();
        self.problems.clear();
        for problem in problems {
            let fastest = self.fastest.min(problem.rows()).min(self.rows);
            let rest = (fastest..self.rows).map(|_| rng.random_range(0..problem.rows()));
            let picked: Vec<usize> = (0..fastest).chain(rest).collect();
            for &row in &picked {
                self.inputs.extend_from_slice(&problem.inputs[row * STRIDE..(row + 1) * STRIDE]);
            }
            self.problems.push((problem, picked));
        }
        self.slopes.resize(self.problems.len() * self.rows, 0.0);
    }

    /// The loss of the outputs, and its slope in each of them: means over the problems.
    fn loss(&mut self) -> f32 {
        let share = 1.0 / self.problems.len() as f32;
        let outputs =
            self.scratch.outputs.chunks_exact(self.rows).zip(self.slopes.chunks_exact_mut(self.rows));
        let mut sum = 0.0;
        for ((problem, picked), (outputs, slopes)) in self.problems.iter().zip(outputs) {
            let targets = Targets::new(problem, picked);
            sum += share * targets.loss(outputs, slopes);
            slopes.iter_mut().for_each(|slope| *slope *= share);
        }
        sum
    }
}
