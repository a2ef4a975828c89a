//! The loss: how far times are off, and how far the order of the near-best is off.
//!
//! Times: a mean square error of log times, weighted towards fast configs.
//! Order: the Kullback–Leibler divergence of a softmax over predicted times from
//! one over measured times. Both are per problem; a step takes the mean of its problems.
//!
//! Order only ever compares the configs of one problem, which were all timed alike. So problems
//! that were timed by another method than those to be predicted teach the order, and no times.

use crate::prepared::Prepared;

/// How fast the weight of a timing falls: with its time over the best to this power.
const WEIGHT_POWER: f32 = 2.0;
/// Log-time distance at which a config's share among the measured falls to 1/e …
const MEASURED_TEMPERATURE: f32 = 0.03;
/// … and among the predicted, wider since predictions err.
const PREDICTED_TEMPERATURE: f32 = 0.05;
const TIME_FACTOR: f32 = 10.0;
const ORDER_FACTOR: f32 = 0.5;

/// What the outputs for some rows of one problem should be.
pub(crate) struct Targets {
    rows: Vec<Target>,
    time_factor: f32,
}

struct Target {
    /// Log time over base: the output wanted.
    output: f32,
    ln_base: f32,
    /// Over the rows they sum to 1.
    weight: f32,
    share: f32,
}

impl Targets {
    pub(crate) fn new(problem: &Prepared, picked: &[usize]) -> Self {
        let best = picked.iter().map(|&row| problem.ln_us[row]).fold(f32::INFINITY, f32::min);
        let mut rows: Vec<Target> = picked
            .iter()
            .map(|&row| {
                let (ln_us, ln_base) = (problem.ln_us[row], problem.ln_base[row]);
                let over_best = ln_us - best;
                Target {
                    output: ln_us - ln_base,
                    ln_base,
                    weight: (-WEIGHT_POWER * over_best).exp(),
                    share: (-over_best / MEASURED_TEMPERATURE).exp(),
                }
            })
            .collect();
        let weights: f32 = rows.iter().map(|row| row.weight).sum();
        let shares: f32 = rows.iter().map(|row| row.share).sum();
        for row in &mut rows {
            row.weight /= weights;
            row.share /= shares;
        }
        Self { rows, time_factor: if problem.times_count { TIME_FACTOR } else { 0.0 } }
    }

    /// The loss of outputs, and its slope in each of them.
    pub(crate) fn loss(&self, outputs: &[f32], slopes: &mut [f32]) -> f32 {
        let scores =
            || outputs.iter().zip(&self.rows).map(|(out, row)| -(out + row.ln_base) / PREDICTED_TEMPERATURE);
        let highest = scores().fold(f32::NEG_INFINITY, f32::max);
        for (slope, score) in slopes.iter_mut().zip(scores()) {
            *slope = (score - highest).exp();
        }
        let sum: f32 = slopes.iter().sum();
        let mut loss = 0.0;
        for ((slope, score), (output, row)) in
            slopes.iter_mut().zip(scores()).zip(outputs.iter().zip(&self.rows))
        {
            let share = *slope / sum;
            let error = output - row.output;
            loss += self.time_factor * row.weight * error * error;
            if row.share > 0.0 {
                loss += ORDER_FACTOR * row.share * (row.share.ln() - (score - highest - sum.ln()));
            }
            *slope = self.time_factor * 2.0 * row.weight * error
                - ORDER_FACTOR / PREDICTED_TEMPERATURE * (share - row.share);
        }
        loss
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(times_count: bool) -> Prepared {
        let us = [10.0_f32, 10.4, 13.0, 40.0];
        Prepared {
            inputs: Vec::new(),
            ln_us: us.iter().map(|us| us.ln()).collect(),
            ln_base: vec![2.0, 2.0, 2.5, 2.0],
            times_count,
        }
    }

    fn loss(problem: &Prepared, outputs: &[f32]) -> (f32, Vec<f32>) {
        let mut slopes = vec![0.0; 4];
        (Targets::new(problem, &[0, 1, 2, 3]).loss(outputs, &mut slopes), slopes)
    }

    #[test]
    fn slopes_are_those_of_the_loss() {
        for times_count in [true, false] {
            let problem = problem(times_count);
            let outputs = [0.31, 0.35, 0.1, 1.6];
            let (_, slopes) = loss(&problem, &outputs);
            for (row, &got) in slopes.iter().enumerate() {
                let at = |step: f32| {
                    let mut moved = outputs;
                    moved[row] += step;
                    f64::from(loss(&problem, &moved).0)
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
        let right: Vec<f32> =
            problem(true).ln_us.iter().zip(&problem(true).ln_base).map(|(us, base)| us - base).collect();
        let shifted: Vec<f32> = right.iter().map(|output| output + 1.0).collect();
        let change =
            |times_count| loss(&problem(times_count), &shifted).0 - loss(&problem(times_count), &right).0;
        assert!((change(true) - 10.0).abs() < 1e-3);
        assert!(change(false).abs() < 1e-3);
    }
}
