//! Timings as rows of torch-diode's features.

use diode_model::features::featured_tile;
use diode_model::predecessor::{features, scaled};

use crate::{TrainError, TrainingProblem, TrainingSet};

pub(super) const COLUMNS: usize = 36;
/// A column is constant if its deviation is at most this share of its mean.
const CONSTANT: f64 = 1e-6;

/// The timings of some problems.
pub(super) struct Rows {
    features: Vec<[f32; COLUMNS]>,
    /// The logarithms ln(ms).
    targets: Vec<f32>,
}

/// Scales columns to mean 0 and deviation 1.
pub(super) struct Scale {
    pub(super) mean: Vec<f32>,
    pub(super) std: Vec<f32>,
}

impl Rows {
    pub(super) fn of(set: &TrainingSet, keep: impl Fn(&TrainingProblem) -> bool) -> Result<Self, TrainError> {
        let mut rows = Self { features: Vec::with_capacity(set.timings()), targets: Vec::new() };
        for problem in set.iter().filter(|problem| keep(problem)) {
            for (config, timed) in set.configs(problem).zip(&problem.timings) {
                rows.features.push(features::thirty_six(&problem.problem, featured_tile(config)?));
                rows.targets.push((timed.us / 1e3).ln() as f32);
            }
        }
        Ok(rows)
    }

    pub(super) fn len(&self) -> usize {
        self.targets.len()
    }

    pub(super) fn scale(&self) -> Scale {
        let count = self.len().max(1) as f64;
        let mut scale = Scale { mean: Vec::with_capacity(COLUMNS), std: Vec::with_capacity(COLUMNS) };
        for column in 0..COLUMNS {
            let values = || self.features.iter().map(|row| f64::from(row[column]));
            let mean = values().sum::<f64>() / count;
            let deviation = (values().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt();
            let is_constant = deviation <= CONSTANT * mean.abs();
            scale.mean.push(mean as f32);
            scale.std.push(if is_constant { 1.0 } else { deviation as f32 });
        }
        scale
    }

    /// The scaled features of some rows, one row after the other, and their targets.
    pub(super) fn batch(&self, rows: &[usize], scale: &Scale) -> (Vec<f32>, Vec<f32>) {
        let scales = || scale.mean.iter().zip(&scale.std);
        let inputs = rows.iter().flat_map(|&row| {
            self.features[row].iter().zip(scales()).map(|(&value, (&mean, &std))| scaled(value, mean, std))
        });
        (inputs.collect(), rows.iter().map(|&row| self.targets[row]).collect())
    }
}
