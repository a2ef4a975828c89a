//! What one training step sees: some problems, some configs of each.

use candle_core::{Device, Tensor};
use diode_model::COLUMN_COUNT;
use diode_model::features::{LANES, ProblemFeatures, featured_tile};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use crate::loss::Targets;
use crate::normalise::Normalisation;
use crate::set::TrainingProblem;
use crate::{TrainError, TrainOptions, TrainingSet};

/// Draws batches. Features are computed as they are needed: that takes a small
/// part of a step's time, and all of them at once would take gigabytes.
pub(crate) struct Sampler<'a> {
    set: &'a TrainingSet,
    problems: Vec<&'a TrainingProblem>,
    features: &'a [ProblemFeatures],
    normalisation: &'a Normalisation,
    /// Rows per problem: the same for all, so that a batch is a matrix.
    rows: usize,
    fastest: usize,
}

/// The inputs of one step and what the outputs should be.
pub(crate) struct Batch {
    /// `[problems × rows, columns]`, normalised.
    pub(crate) inputs: Tensor,
    pub(crate) targets: Targets,
}

impl<'a> Sampler<'a> {
    pub(crate) fn new(
        set: &'a TrainingSet,
        features: &'a [ProblemFeatures],
        normalisation: &'a Normalisation,
        options: &TrainOptions,
    ) -> Self {
        let problems: Vec<&TrainingProblem> = set.iter().collect();
        let most = problems.iter().map(|problem| problem.timings.len()).max().unwrap_or(0);
        let rows = options.configs_per_problem.min(most);
        Self { set, problems, features, normalisation, rows, fastest: options.fastest_per_problem }
    }

    /// The batch of some problems, given by their places in the set.
    pub(crate) fn draw(&self, problems: &[usize], rng: &mut ChaCha8Rng) -> Result<Batch, TrainError> {
        let count = problems.len() * self.rows;
        let mut inputs = vec![0.0_f32; count * COLUMN_COUNT];
        let mut targets = Targets::with_capacity(self.rows, count);
        let mut block = [[1.0; LANES]; COLUMN_COUNT];
        for (&index, inputs) in problems.iter().zip(inputs.chunks_mut(self.rows * COLUMN_COUNT)) {
            let (problem, features) = (self.problems[index], &self.features[index]);
            let picked = self.pick(problem.timings.len(), rng);
            let tiles = picked
                .iter()
                .map(|&row| featured_tile(self.set.config(problem.timings[row].config)))
                .collect::<Result<Vec<_>, _>>()?;
            for (tiles, inputs) in tiles.chunks(LANES).zip(inputs.chunks_mut(LANES * COLUMN_COUNT)) {
                features.fill(tiles.iter().copied(), &mut block);
                for (lane, row) in inputs.chunks_mut(COLUMN_COUNT).enumerate() {
                    for (column, value) in row.iter_mut().enumerate() {
                        *value = self.normalisation.apply(column, block[column][lane]);
                    }
                }
            }
            let best = problem.timings[0].us.ln();
            targets.push_problem(picked.iter().zip(tiles).map(|(&row, tile)| {
                let time = problem.timings[row].us.ln();
                (time - best, time, f64::from(features.base_us(tile)).ln())
            }));
        }
        let inputs = Tensor::from_vec(inputs, (count, COLUMN_COUNT), &Device::Cpu)?;
        Ok(Batch { inputs, targets })
    }

    /// Rows of a problem with so many timings: the fastest ones, the rest at random.
    fn pick(&self, timings: usize, rng: &mut ChaCha8Rng) -> Vec<usize> {
        let fastest = self.fastest.min(timings).min(self.rows);
        (0..fastest).chain((fastest..self.rows).map(|_| rng.random_range(0..timings))).collect()
    }
}
