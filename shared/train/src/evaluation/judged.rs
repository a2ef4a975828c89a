//! A model's predictions beside what was measured.

use std::time::Instant;

use diode_core::{Config, Problem};
use diode_model::Predictor;

use crate::{TrainError, TrainingSet};

/// One problem, its configs in the order in which a model would pick them.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    pub problem: Problem,
    /// Never empty.
    pub rows: Vec<JudgedRow>,
    pub library: Option<LibraryTimes>,
    /// What predicting and sorting took, in µs.
    pub rank_us: f64,
}

/// One config with both of its times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JudgedRow {
    pub config: Config,
    /// The natural logarithm of the predicted time in µs.
    pub predicted_ln: f64,
    pub measured_us: f64,
}

/// The library kernel on a problem.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LibraryTimes {
    /// `None` if the model has no prediction for it.
    pub predicted_ln: Option<f64>,
    pub measured_us: f64,
}

impl JudgedRow {
    /// Infinite where a badly fed network claims more than a number holds.
    pub fn predicted_us(&self) -> f64 {
        self.predicted_ln.exp()
    }

    /// Above 0 where the prediction was too slow.
    pub fn log_error(&self) -> f64 {
        self.predicted_ln - self.measured_us.ln()
    }
}

impl Judged {
    /// The shortest measured time among the first `picks` predictions.
    pub fn best_of(&self, picks: usize) -> f64 {
        self.rows.iter().take(picks).map(|row| row.measured_us).fold(f64::INFINITY, f64::min)
    }

    /// The fastest config that was measured.
    pub fn best(&self) -> &JudgedRow {
        let fastest = |a: &&JudgedRow, b: &&JudgedRow| a.measured_us.total_cmp(&b.measured_us);
        self.rows.iter().min_by(fastest).unwrap_or(&self.rows[0])
    }

    /// The same with the library kernel as a candidate: the best of `picks` picks,
    /// and the best of everything. `None` where the library was not timed.
    ///
    /// A model that predicts the library's time picks it like any config. Beside
    /// the picks of any other it is timed always, as Inductor does.
    pub fn with_library(&self, picks: usize) -> Option<(f64, f64)> {
        let LibraryTimes { predicted_ln, measured_us } = self.library?;
        let best = self.best().measured_us.min(measured_us);
        let Some(predicted_ln) = predicted_ln else {
            return Some((self.best_of(picks).min(measured_us), best));
        };
        let before = self.rows.partition_point(|row| row.predicted_ln < predicted_ln);
        let picked =
            if before < picks { self.best_of(picks - 1).min(measured_us) } else { self.best_of(picks) };
        Some((picked, best))
    }
}

/// Predicts every timing of a set. Equal predictions are in the order of configs,
/// so the measured order never decides.
pub fn judge(model: &dyn Predictor, set: &TrainingSet) -> Result<Vec<Judged>, TrainError> {
    let data = &set.hardware().slug;
    if let Some(hardware) = model.hardware().filter(|hardware| hardware.slug != *data) {
        return Err(TrainError::OtherHardware { model: hardware.slug.clone(), data: data.clone() });
    }
    set.iter()
        .map(|problem| {
            let configs: Vec<Config> = set.configs(problem).copied().collect();
            let start = Instant::now();
            let predicted = model.ln_us(&problem.problem, &configs)?;
            let library_ln = model.library_ln_us(&problem.problem)?;
            let mut rows: Vec<JudgedRow> = configs
                .into_iter()
                .zip(predicted)
                .zip(&problem.timings)
                .map(|((config, predicted_ln), timed)| JudgedRow {
                    config,
                    predicted_ln,
                    measured_us: timed.us,
                })
                .collect();
            rows.sort_unstable_by(|a, b| {
                a.predicted_ln.total_cmp(&b.predicted_ln).then_with(|| a.config.cmp(&b.config))
            });
            let rank_us = start.elapsed().as_secs_f64() * 1e6;
            let library =
                problem.library_us.map(|measured_us| LibraryTimes { predicted_ln: library_ln, measured_us });
            Ok(Judged { problem: problem.problem.clone(), rows, library, rank_us })
        })
        .collect()
}
