use std::path::PathBuf;

use clap::Args;
use diode_train::Evaluation;

use super::flags::BatchSize;
use super::prediction_errors::Validation;
use crate::input::arguments::whole;
use crate::input::datasets::Selection;
use crate::input::models;
use crate::{evaluation, output};

/// Measure a model's errors on a dataset, and show its worst predictions
///
/// All timings of the dataset count. Errors are of the logarithm of the time, as
/// torch-diode trained on; the table of picks says what they cost.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode validate-model --model cpu.safetensors --dataset validation.msgpack.zst --top-n-worst 5"
)]
pub(crate) struct ValidateModel {
    /// Model file
    #[arg(long, value_name = "FILE")]
    model: PathBuf,

    /// Dataset, or folder of datasets
    #[arg(long, alias = "data", value_name = "PATH")]
    dataset: PathBuf,

    /// How many of the worst predictions and picks to show
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = whole::<usize>)]
    top_n_worst: usize,

    /// Print one JSON document
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    selection: Selection,

    #[command(flatten)]
    batch_size: BatchSize,
}

impl ValidateModel {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        self.batch_size.mention("all configs of a problem are predicted at once");
        let model = models::read_model(&self.model)?;
        let set = evaluation::read_timings(&model, &self.dataset, None, &self.selection)?;
        evaluation::warn_if_trained_on(&model, &set);
        let (evaluation, judged) = Evaluation::new(&model, &set)?;
        let validation = Validation::of(&judged, evaluation.report, self.top_n_worst);
        if self.json { output::json(&validation) } else { output::text_out(&validation.in_words()) }
    }
}
