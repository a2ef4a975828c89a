//! The timings that a model is judged by.

use std::path::{Path, PathBuf};

use diode_core::hardware::{catalogue, find};
use diode_core::{Dataset, Method};
use diode_model::{AnyModel, Predictor};
use diode_train::{TrainError, TrainingSet};

use super::library_times;
use crate::failure::Usage;
use crate::input::selection::{Selection, describe};

/// Reads the timings to judge a model by. The library's times may come from a file of their own. If a
/// file states only the name of its hardware, the model's facts describe it.
pub(crate) fn read(
    model: &AnyModel,
    dataset: &PathBuf,
    library: Option<&Path>,
    selection: &Selection,
) -> anyhow::Result<TrainingSet> {
    let mut datasets = selection.read(std::slice::from_ref(dataset))?;
    if let Some(library) = library {
        library_times::add(library, &mut datasets)?;
    }
    describe(&mut datasets, || Ok(model.ranked_hardware()?))?;
    let set = match model.training() {
        Some(training) => of_the_models_methods(model, &datasets, training.method)?,
        None => TrainingSet::from_datasets(&datasets, None)?,
    };
    let left_out = set.left_out();
    if left_out != diode_train::LeftOut::default() {
        say!("{left_out}");
    }
    Ok(set)
}

/// The model as it predicts for hardware that it was not trained on.
pub(crate) fn standing_in_for(model: AnyModel, name: &str) -> anyhow::Result<AnyModel> {
    let known = || catalogue().map(|hardware| hardware.slug.to_string()).collect::<Vec<_>>().join(", ");
    let Some(hardware) = find(name) else {
        return Err(Usage::new(format!("--as: got {name}, expected one of {}", known())).into());
    };
    match model {
        AnyModel::Ranking(model) => Ok(AnyModel::Ranking(Box::new(model.standing_in_for(hardware)?))),
        AnyModel::Predecessor(_) => Err(Usage::new(
            "--as: got a model of torch-diode, which reads no facts of hardware; expected a ranking one",
        )
        .into()),
    }
}

/// Timings by the model's method, or else by its second method. If there are none, timings by the
/// commonest method, with a warning: an old dataset does not state its method.
fn of_the_models_methods(
    model: &AnyModel,
    datasets: &[Dataset],
    method: Method,
) -> Result<TrainingSet, TrainError> {
    let second = model.as_ranking().and_then(|model| model.metadata().second_method);
    match TrainingSet::from_datasets(datasets, Some(method)) {
        Err(TrainError::NoSuchMethod { found, .. }) => {
            if let Some(second) = second
                && let Ok(set) = TrainingSet::from_datasets(datasets, Some(second))
            {
                say!("note: judged as times taken as {second}, which the model has learnt beside {method}");
                return Ok(set);
            }
            say!("warning: the model predicts times taken as {method}, the dataset has {found}");
            TrainingSet::from_datasets(datasets, None)
        }
        other => other,
    }
}

/// Warns if a model is judged by the data that it was trained on.
pub(crate) fn warn_if_trained_on(model: &dyn Predictor, set: &TrainingSet) {
    if model.training().is_some_and(|training| training.data_digest == set.digest()) {
        say!(
            "warning: the model was trained on this very data, so these numbers say little; use another \
             dataset, or `diode evaluate --folds 4`"
        );
    }
}
