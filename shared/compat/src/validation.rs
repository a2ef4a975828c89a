//! What torch-diode's `validate-model` reports: the errors of a model's predicted times, and where they are largest.

use diode_api::EvaluationReport;
use diode_core::{Config, Problem};
use diode_train::{Judged, JudgedRow};
use serde::Serialize;

/// What `validate-model` prints as JSON.
#[derive(Serialize)]
pub struct Validation {
    pub problems: usize,
    pub timings: usize,
    /// Mean squared error of the natural logarithm of the time, over all timings. `rmse` is its
    /// root.
    pub mse: f64,
    pub rmse: f64,
    /// The factor by which a predicted time is typically wrong.
    pub rmse_exp: f64,
    #[serde(flatten)]
    pub picks: EvaluationReport,
    pub worst_predictions: Vec<WorstPrediction>,
    pub worst_picks: Vec<WorstPick>,
}

#[derive(Serialize)]
pub struct WorstPrediction {
    pub problem: Problem,
    pub config: Config,
    pub predicted_us: f64,
    pub measured_us: f64,
    pub log_error: f64,
    /// The predicted time / the measured time.
    pub ratio: f64,
}

/// A problem whose first pick is far from its best config.
#[derive(Serialize)]
pub struct WorstPick {
    pub problem: Problem,
    pub picked: Config,
    pub picked_us: f64,
    pub best: Config,
    pub best_us: f64,
    /// How near the pick comes to the best: the best time / the picked time.
    pub share: f64,
}

impl Validation {
    pub fn of(judged: &[Judged], picks: EvaluationReport, worst: usize) -> Self {
        let rows = || judged.iter().flat_map(|judged| judged.rows.iter().map(move |row| (judged, row)));
        let timings = rows().count();
        let mse = rows().map(|(_, row)| row.log_error().powi(2)).sum::<f64>() / timings.max(1) as f64;

        let mut by_error: Vec<(&Judged, &JudgedRow)> = rows().collect();
        by_error.sort_by(|(_, a), (_, b)| b.log_error().abs().total_cmp(&a.log_error().abs()));
        let mut by_share: Vec<WorstPick> = judged.iter().filter_map(WorstPick::of).collect();
        by_share.sort_by(|a, b| a.share.total_cmp(&b.share));
        by_share.truncate(worst);
        Self {
            problems: judged.len(),
            timings,
            mse,
            rmse: mse.sqrt(),
            rmse_exp: mse.sqrt().exp(),
            picks,
            worst_predictions: by_error
                .into_iter()
                .take(worst)
                .map(|(judged, row)| WorstPrediction::of(&judged.problem, row))
                .collect(),
            worst_picks: by_share,
        }
    }
}

impl WorstPrediction {
    fn of(problem: &Problem, row: &JudgedRow) -> Self {
        Self {
            problem: problem.clone(),
            config: row.config,
            predicted_us: row.predicted_us(),
            measured_us: row.measured_us,
            log_error: row.log_error(),
            ratio: row.log_error().exp(),
        }
    }
}

impl WorstPick {
    fn of(judged: &Judged) -> Option<Self> {
        let picked = judged.rows.first()?;
        let best = judged.best();
        Some(Self {
            problem: judged.problem.clone(),
            picked: picked.config,
            picked_us: picked.measured_us,
            best: best.config,
            best_us: best.measured_us,
            share: best.measured_us / picked.measured_us,
        })
    }
}

#[cfg(test)]
mod tests {
    use diode_core::{DType, Op, ProblemFields, Tile};

    use super::*;

    fn row(block: u32, predicted_us: f64, measured_us: f64) -> JudgedRow {
        let config = Config::Mm(Tile::new(block, 64, 32, 3, 4));
        JudgedRow { config, predicted_ln: predicted_us.ln(), measured_us }
    }

    #[test]
    fn errors_are_of_logarithms_and_the_worst_come_first() {
        let problem = Problem::new(ProblemFields::plain(Op::Mm, 1, 64, 64, 64, DType::Float16)).unwrap();
        let rows = vec![row(16, 2.0, 4.0), row(32, 3.0, 3.0), row(64, 8.0, 2.0)];
        let judged = Judged { problem, rows, ranked: None, library_us: None, rank_us: 0.0 };
        let picks = EvaluationReport {
            problems: 1,
            configs: 3,
            top_k: Default::default(),
            mape_all: 0.0,
            mape_within_2x: 0.0,
            spearman_median: 0.0,
            rank_us_per_problem: 0.0,
            within_5_percent: Default::default(),
            split: String::new(),
        };
        let validation = Validation::of(&[judged], picks, 2);
        // The errors of ln are −ln 2, 0 and ln 4 = 2·ln 2, so the mean square is 5/3·(ln 2)².
        let expected = 5.0 / 3.0 * 2_f64.ln().powi(2);
        assert!((validation.mse - expected).abs() < 1e-12, "{}", validation.mse);
        assert!((validation.rmse_exp - expected.sqrt().exp()).abs() < 1e-12);
        let ratios: Vec<f64> = validation.worst_predictions.iter().map(|worst| worst.ratio).collect();
        assert!((ratios[0] - 4.0).abs() < 1e-12 && (ratios[1] - 0.5).abs() < 1e-12, "{ratios:?}");
        assert_eq!(validation.worst_picks[0].share, 0.5);
    }
}
