use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::Args;
use diode_core::api::{EvaluationReport, TopK};
use diode_model::Model;
use diode_train::{TrainOptions, TrainingSet, cross_validate, evaluate, evaluate_with_library};
use serde::Serialize;

use super::report::{metrics, parse_folds};
use super::selection::Selection;
use super::speedups::Speedups;
use super::training_progress::TrainingProgress;
use super::{files, judging, max_autotune};
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

    /// Compare the picks with the configs of a torch-diode solution too
    #[arg(long, value_name = "FILE", conflicts_with = "folds")]
    max_autotune_solution: Option<PathBuf>,

    #[command(flatten)]
    selection: Selection,
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
    /// Against the configs of a solution, where one was given; times in ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    max_autotune: Option<Speedups>,
}

#[derive(Serialize)]
struct WithLibrary {
    top_k: BTreeMap<String, TopK>,
}

impl Evaluate {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let model = files::read_model(&self.model)?;
        let training = &model.metadata().training;
        let set = judging::read(&model, &self.dataset, &self.selection)?;
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
                Document { report, judged: "recipe", with_library: None, max_autotune: None }
            }
            None => {
                eprintln!("judging the model's own weights");
                judging::warn_if_trained_on(&model, &set);
                let with_library = evaluate_with_library(&model, &set)?.map(|top_k| WithLibrary { top_k });
                let max_autotune = self.max_autotune_solution.as_ref();
                let max_autotune = max_autotune.map(|path| against(&model, &set, path)).transpose()?;
                Document { report: evaluate(&model, &set)?, judged: "model", with_library, max_autotune }
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
        if let Some(speedups) = &document.max_autotune {
            text += &format!("\n{}", max_autotune::in_words(speedups));
        }
        output::text_out(&text)
    }
}

fn against(model: &Model, set: &TrainingSet, solution: &Path) -> anyhow::Result<Speedups> {
    let comparison = max_autotune::compare(model, set, &diode_formats::read_solution(solution)?, solution)?;
    for note in &comparison.notes {
        eprintln!("note: {note}");
    }
    Ok(comparison.speedups)
}
