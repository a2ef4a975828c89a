//! The mean and spread of every column over a training set.

use diode_model::features::{Block, LANES, ProblemFeatures, featured_tile};
use diode_model::{COLUMN_COUNT, normalise};

use crate::{TrainError, TrainingSet};

/// Added to every deviation.
const LEAST_DEVIATION: f64 = 1e-3;
/// A column that varies less than this says nothing in this set; scaled by so little, any other
/// value at prediction would be enormous.
const CONSTANT: f64 = 1e-3;

/// What brings columns to mean 0 and deviation 1.
#[derive(Debug, Clone)]
pub(crate) struct Normalisation {
    pub(crate) mean: Vec<f32>,
    pub(crate) std: Vec<f32>,
}

impl Normalisation {
    /// Over every timing of a set, all alike.
    pub(crate) fn of(set: &TrainingSet, features: &[ProblemFeatures]) -> Result<Self, TrainError> {
        let mut sums = Sums { count: 0.0, sum: [0.0; COLUMN_COUNT], squares: [0.0; COLUMN_COUNT] };
        let mut block = [[1.0; LANES]; COLUMN_COUNT];
        for (problem, features) in set.iter().zip(features) {
            let tiles = set.configs(problem).map(featured_tile).collect::<Result<Vec<_>, _>>()?;
            for group in tiles.chunks(LANES) {
                features.fill(group.iter().copied(), &mut block);
                sums.add(&block, group.len());
            }
        }
        Ok(sums.finish())
    }

    /// One value of a column, brought to scale.
    pub(crate) fn apply(&self, column: usize, value: f32) -> f32 {
        normalise(value, self.mean[column], self.std[column])
    }
}

struct Sums {
    count: f64,
    sum: [f64; COLUMN_COUNT],
    squares: [f64; COLUMN_COUNT],
}

impl Sums {
    fn add(&mut self, block: &Block, lanes: usize) {
        self.count += lanes as f64;
        for (column, values) in block.iter().enumerate() {
            for &value in &values[..lanes] {
                self.sum[column] += f64::from(value);
                self.squares[column] += f64::from(value) * f64::from(value);
            }
        }
    }

    fn finish(self) -> Normalisation {
        let mean = self.sum.map(|sum| sum / self.count);
        let std = self.squares.iter().zip(mean).map(|(squares, mean)| {
            let variance = (squares / self.count - mean * mean).max(0.0);
            let deviation = variance.sqrt();
            if deviation < CONSTANT { 1.0 } else { (deviation + LEAST_DEVIATION) as f32 }
        });
        Normalisation { std: std.collect(), mean: mean.iter().map(|&mean| mean as f32).collect() }
    }
}
