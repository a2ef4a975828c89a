//! A model's predictions beside what was measured.

use std::path::PathBuf;

use diode_core::{Config, Dataset, Method, Problem};
use diode_model::Model;
use diode_train::{TrainError, TrainingSet};

use super::selection::{Selection, describe};

/// One problem, its configs in the order of their predicted times.
pub(super) struct Judged {
    pub(super) problem: Problem,
    pub(super) rows: Vec<Row>,
}

pub(super) struct Row {
    pub(super) config: Config,
    pub(super) predicted_us: f64,
    pub(super) measured_us: f64,
}

impl Row {
    /// Above 0 where the prediction was too slow.
    pub(super) fn log_error(&self) -> f64 {
        (self.predicted_us / self.measured_us).ln()
    }
}

impl Judged {
    /// The shortest measured time among the first `picks` predictions.
    pub(super) fn best_of(&self, picks: usize) -> f64 {
        self.rows.iter().take(picks).map(|row| row.measured_us).fold(f64::INFINITY, f64::min)
    }
}

/// Reads what a model is to be judged by. Hardware that a file only names is
/// described by the model.
pub(super) fn read(model: &Model, dataset: &PathBuf, selection: &Selection) -> anyhow::Result<TrainingSet> {
    let mut datasets = selection.read(std::slice::from_ref(dataset))?;
    describe(&mut datasets, || Ok(model.metadata().hardware.clone()))?;
    let set = of_the_models_method(&datasets, model.metadata().training.method)?;
    let left_out = set.left_out();
    if left_out != diode_train::LeftOut::default() {
        eprintln!("{left_out}");
    }
    Ok(set)
}

/// Timings taken the way the model's were; where there are none, the commonest,
/// and a warning, for an old dataset does not say how it was measured.
fn of_the_models_method(datasets: &[Dataset], method: Method) -> Result<TrainingSet, TrainError> {
    match TrainingSet::from_datasets(datasets, Some(method)) {
        Err(TrainError::NoSuchMethod { found, .. }) => {
            eprintln!("warning: the model predicts times taken as {method}, the dataset has {found}");
            TrainingSet::from_datasets(datasets, None)
        }
        other => other,
    }
}

/// Says so where a model is judged by what it was trained on.
pub(super) fn warn_if_trained_on(model: &Model, set: &TrainingSet) {
    if model.metadata().training.data_digest == set.digest() {
        eprintln!(
            "warning: the model was trained on this very data, so these numbers say little; use another \
             dataset, or `diode evaluate --folds 4`"
        );
    }
}

/// Predicts every timing of a set. Equal predictions are in the order of configs,
/// so the measured order never decides.
pub(super) fn judge(model: &Model, set: &TrainingSet) -> anyhow::Result<Vec<Judged>> {
    let (model_slug, data) = (&model.metadata().hardware.slug, &set.hardware().slug);
    if model_slug != data {
        return Err(TrainError::OtherHardware { model: model_slug.clone(), data: data.clone() }.into());
    }
    set.iter()
        .map(|problem| {
            let configs: Vec<Config> = set.configs(problem).copied().collect();
            let predicted = model.predict(&problem.problem, &configs)?;
            let mut rows: Vec<Row> = configs
                .into_iter()
                .zip(predicted)
                .zip(&problem.timings)
                .map(|((config, predicted), timed)| Row {
                    config,
                    predicted_us: predicted.0,
                    measured_us: timed.us,
                })
                .collect();
            rows.sort_unstable_by(|a, b| {
                a.predicted_us.total_cmp(&b.predicted_us).then_with(|| a.config.cmp(&b.config))
            });
            Ok(Judged { problem: problem.problem.clone(), rows })
        })
        .collect()
}
