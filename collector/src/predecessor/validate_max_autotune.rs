use std::path::PathBuf;

use clap::Args;
use diode_compat::AnyModel;
use diode_core::Op;
use diode_core::ids::{Digest, ModelId};
use diode_train::{TrainingSet, judge};
use serde::Serialize;

use super::flags::BatchSize;
use crate::evaluation;
use crate::evaluation::speedups::{self, Speedups};
use crate::input::datasets::Selection;
use crate::input::models;
use crate::output::{self, files};

/// Compare a model's picks with the configs that max-autotune would try
///
/// A speedup above 1 means: the best of the model's first N picks is faster than
/// the best of the reference configs. Both are looked up among the dataset's timings.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode validate-max-autotune --model h200.safetensors --dataset held_out.msgpack.zst --max-autotune-solution max_autotune.json"
)]
pub(crate) struct ValidateMaxAutotune {
    /// Model file
    #[arg(long, value_name = "FILE")]
    model: PathBuf,

    /// Dataset, or folder of datasets
    #[arg(long, alias = "data", value_name = "PATH")]
    dataset: PathBuf,

    /// Reference configs: torch-diode's solution as JSON or CSV
    #[arg(long, value_name = "FILE")]
    max_autotune_solution: PathBuf,

    /// Report to write, as JSON
    #[arg(long, value_name = "FILE", default_value = "model_performance_analysis_by_op.json")]
    output: PathBuf,

    #[command(flatten)]
    selection: Selection,

    #[command(flatten)]
    batch_size: BatchSize,
}

/// The report. It has no date, so that the same files give the same bytes.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    speedups: Speedups,
    metadata: Metadata,
}

#[derive(Serialize)]
struct Metadata {
    model_path: String,
    model_id: ModelId,
    validation_dataset_path: String,
    validation_dataset_digest: Digest,
    max_autotune_solution_path: String,
    hardware_name: String,
    op_name_filter: String,
    device: &'static str,
    time_unit: &'static str,
    ops_present: Vec<Op>,
    notes: Vec<String>,
}

impl ValidateMaxAutotune {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        self.batch_size.mention("all configs of a problem are predicted at once");
        files::check_may_write(&self.output, true)?;
        files::check_not_input(&self.output, [&self.model, &self.dataset, &self.max_autotune_solution])?;
        files::check_replaces_report(&self.output, "{")?;
        let configs = diode_compat::read_reference_configs(&self.max_autotune_solution)?;
        let model = models::read_model(&self.model)?;
        let set = evaluation::read_timings(&model, &self.dataset, None, &self.selection)?;
        evaluation::warn_if_trained_on(&model, &set);
        let comparison = speedups::compare(&judge(&model, &set)?, &configs, &self.max_autotune_solution)?;
        for note in &comparison.notes {
            say!("note: {note}");
        }
        let text = speedups::speedups_in_words(&comparison.speedups);
        let metadata = self.metadata(&model, &set, comparison.ops, comparison.notes)?;
        let mut bytes = serde_json::to_vec_pretty(&Report { speedups: comparison.speedups, metadata })?;
        bytes.push(b'\n');
        files::write(&self.output, &bytes)?;
        output::text_out(&format!("{text}\n{}: the report\n", self.output.display()))
    }

    fn metadata(
        &self,
        model: &AnyModel,
        set: &TrainingSet,
        ops_present: Vec<Op>,
        notes: Vec<String>,
    ) -> anyhow::Result<Metadata> {
        Ok(Metadata {
            model_path: self.model.display().to_string(),
            model_id: models::model_id(&self.model, model)?,
            validation_dataset_path: self.dataset.display().to_string(),
            validation_dataset_digest: set.digest(),
            max_autotune_solution_path: self.max_autotune_solution.display().to_string(),
            hardware_name: self.selection.hardware_name().unwrap_or("all").to_owned(),
            op_name_filter: self.selection.op_name().map_or("none".to_owned(), |op| op.to_string()),
            device: "cpu",
            time_unit: "ms",
            ops_present,
            notes,
        })
    }
}
