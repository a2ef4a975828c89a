//! The errors of a model's predicted times, and where they are largest.

use diode_api::EvaluationReport;
use diode_core::{Config, Problem};
use diode_train::{Judged, JudgedRow};
use serde::Serialize;

use crate::evaluation::words::metrics;
use crate::output;

/// What `validate-model` prints as JSON.
#[derive(Serialize)]
pub(crate) struct Validation {
    problems: usize,
    timings: usize,
    /// Mean squared error of the natural logarithm of the time, over all timings. `rmse` is its
    /// root.
    mse: f64,
    rmse: f64,
    /// The factor by which a predicted time is typically wrong.
    rmse_exp: f64,
    #[serde(flatten)]
    picks: EvaluationReport,
    worst_predictions: Vec<WorstPrediction>,
    worst_picks: Vec<WorstPick>,
}

#[derive(Serialize)]
struct WorstPrediction {
    problem: Problem,
    config: Config,
    predicted_us: f64,
    measured_us: f64,
    log_error: f64,
    /// The predicted time / the measured time.
    ratio: f64,
}

/// A problem whose first pick is far from its best config.
#[derive(Serialize)]
struct WorstPick {
    problem: Problem,
    picked: Config,
    picked_us: f64,
    best: Config,
    best_us: f64,
    /// How near the pick comes to the best: the best time / the picked time.
    share: f64,
}

impl Validation {
    pub(crate) fn of(judged: &[Judged], picks: EvaluationReport, worst: usize) -> Self {
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

    pub(crate) fn in_words(&self) -> String {
        let mut text = format!(
            "{}, {}\nMSE {:.6}, RMSE {:.6} of ln(time); RMSE (exp) {:.4}: times are typically wrong by this factor\n\n{}",
            output::count(self.problems, "problem"),
            output::count(self.timings, "timing"),
            self.mse,
            self.rmse,
            self.rmse_exp,
            metrics(&self.picks),
        );
        if !self.worst_predictions.is_empty() {
            let rows: Vec<Vec<String>> = self.worst_predictions.iter().map(WorstPrediction::cells).collect();
            let header =
                ["op", "dtype", "M×N×K", "config", "predicted", "measured", "predicted/measured", "ln error"];
            text += &format!("\nWorst predictions\n{}", output::table(&header, &rows, 4));
        }
        if !self.worst_picks.is_empty() {
            let rows: Vec<Vec<String>> = self.worst_picks.iter().map(WorstPick::cells).collect();
            let header = ["op", "dtype", "M×N×K", "first pick", "best config", "pick", "best", "of the best"];
            text += &format!("\nWorst first picks\n{}", output::table(&header, &rows, 5));
        }
        text
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

    fn cells(&self) -> Vec<String> {
        let measured = [
            self.config.label(),
            output::duration(self.predicted_us),
            output::duration(self.measured_us),
            format!("{:.3}x", self.ratio),
            format!("{:+.3}", self.log_error),
        ];
        about(&self.problem).into_iter().chain(measured).collect()
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

    fn cells(&self) -> Vec<String> {
        let measured = [
            self.picked.label(),
            self.best.label(),
            output::duration(self.picked_us),
            output::duration(self.best_us),
            format!("{:.1} %", self.share * 100.0),
        ];
        about(&self.problem).into_iter().chain(measured).collect()
    }
}

fn about(problem: &Problem) -> [String; 3] {
    [problem.op.to_string(), problem.a_dtype.to_string(), problem.dims()]
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
        let words = validation.in_words();
        assert!(words.contains("4.000x") && words.contains("8.00 µs"), "{words}");
        assert!(words.contains("50.0 %"), "{words}");
    }
}
