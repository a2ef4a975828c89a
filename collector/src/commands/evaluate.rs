use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Args;
use diode_core::api::{EvaluationReport, TopK};
use diode_train::{TrainOptions, TrainingSet, cross_validate, evaluate, evaluate_with_library};
use serde::Serialize;

use super::files;
use super::report::{metrics, parse_folds};
use super::training_progress::TrainingProgress;
use crate::interrupt::Interrupt;
use crate::output;

/// Judge a model by measured timings
///
/// A share of 97 % means: the best of the first k picks takes 1/0.97 of the time
/// of the best config that was measured. Picks are made among the timed configs.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode evaluate --model h200.safetensors --dataset held_out.msgpack.zst --json metrics.json"
)]
pub(crate) struct Evaluate {
    /// Model file
    #[arg(long, value_name = "FILE")]
    model: PathBuf,

    /// Dataset, or folder of datasets
    #[arg(long, value_name = "PATH")]
    dataset: PathBuf,

    /// Write JSON to a file, or without one to stdout
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,

    /// Judge the recipe instead: train on parts of the dataset and judge on the rest
    #[arg(long, value_name = "N", value_parser = parse_folds)]
    folds: Option<usize>,
}

/// The JSON document: the report, and a second block where the dataset has
/// timings of the library kernel.
#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    report: EvaluationReport,
    /// `model` if the file's own weights were judged, `recipe` for fresh ones.
    judged: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    with_library: Option<WithLibrary>,
}

#[derive(Serialize)]
struct WithLibrary {
    top_k: BTreeMap<String, TopK>,
}

impl Evaluate {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let model = files::read_model(&self.model)?;
        let training = &model.metadata().training;
        let datasets = files::read_datasets(std::slice::from_ref(&self.dataset))?;
        let set = method_of_the_model(&datasets, training.method)?;
        let document = match self.folds {
            Some(folds) => {
                eprintln!("judging the recipe on this dataset by cross-validation, not the model's weights");
                let options = TrainOptions { seed: training.seed, ..TrainOptions::default() };
                let interrupt = Interrupt::install()?;
                let mut progress = TrainingProgress::new();
                let (report, _) = cross_validate(&set, &options, folds, &mut |step| {
                    progress.tell(step);
                    if interrupt.requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })?;
                progress.finish();
                Document { report, judged: "recipe", with_library: None }
            }
            None => {
                eprintln!("judging the model's own weights");
                if training.data_digest == set.digest() {
                    eprintln!(
                        "warning: the model was trained on this very data, so these numbers say little; \
                         use another dataset, or --folds 4"
                    );
                }
                let with_library = evaluate_with_library(&model, &set)?.map(|top_k| WithLibrary { top_k });
                Document { report: evaluate(&model, &set)?, judged: "model", with_library }
            }
        };
        self.publish(&document)
    }

    fn publish(&self, document: &Document) -> anyhow::Result<()> {
        match &self.json {
            Some(path) if path.as_os_str() == "-" => return output::json(document),
            Some(path) => {
                let mut bytes = serde_json::to_vec_pretty(document)?;
                bytes.push(b'\n');
                files::write(path, &bytes)?;
            }
            None => {}
        }
        let mut text = metrics(&document.report);
        if let Some(WithLibrary { top_k }) = &document.with_library {
            text += "with the library kernel as a further candidate:";
            for (k, top) in top_k {
                text += &format!(" top {k} {:.1} %", top.geomean * 100.0);
            }
            text += "\n";
        }
        output::text_out(&text)
    }
}

/// Timings taken the way the model's were; where there are none, the commonest,
/// and a warning, for an old dataset does not say how it was measured.
fn method_of_the_model(
    datasets: &[diode_core::Dataset],
    method: diode_core::Method,
) -> Result<TrainingSet, diode_train::TrainError> {
    match TrainingSet::from_datasets(datasets, Some(method)) {
        Err(diode_train::TrainError::NoSuchMethod { found, .. }) => {
            eprintln!("warning: the model predicts times taken as {method}, the dataset has {found}");
            TrainingSet::from_datasets(datasets, None)
        }
        other => other,
    }
}
