use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use diode_api::KeptReport;
use diode_core::Method;
use diode_train::{FirstPicks, TrainOptions, TrainingSet};

use crate::failure::Usage;
use crate::input::arguments::whole;
use crate::input::datasets::{self, Selection, describe};
use crate::interrupt::Interrupt;
use crate::node::Node;
use crate::output::{self, files};
use crate::training::STOPPING;
use crate::training::recipe::{Recipe, check_model_name};

/// Train a model that ranks configs by their predicted times
///
/// The model is trained on all problems; then the recipe is judged by cross-validation, and those
/// metrics are stored in the model.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  diode train --data cpu.msgpack.zst --model cpu.safetensors --folds 4")]
pub(crate) struct Train {
    /// Datasets, or folders of datasets; of one kind of hardware
    #[arg(long, aliases = ["dataset", "data-dir"], required = true, num_args = 1.., value_name = "PATH")]
    data: Vec<PathBuf>,

    /// Datasets of other hardware, or folders of them, to learn from as well; nothing is judged by them
    #[arg(long, num_args = 1.., value_name = "PATH")]
    related: Vec<PathBuf>,

    /// Extensions of the files to read in folders, such as json msgpack [default: all datasets]
    #[arg(long, value_name = "EXT", value_delimiter = ',', num_args = 1..)]
    file_extensions: Vec<String>,

    /// Model file to write (.safetensors)
    #[arg(long, value_name = "FILE")]
    model: PathBuf,

    /// Decides the first weights, every random choice and the folds
    #[arg(long, default_value_t = TrainOptions::default().seed, value_parser = whole::<u64>)]
    seed: u64,

    /// Use timings taken this way, such as median-cold-event [default: the commonest]
    #[arg(long)]
    method: Option<Method>,

    /// Leave out the problems that servers keep for judging, one size in ten, as a server's own trainings do,
    /// and say how good the first picks are on them
    #[arg(long)]
    without_kept: bool,

    /// Replace the model's files if they exist
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    recipe: Recipe,

    #[command(flatten)]
    selection: Selection,
}

impl Train {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        check_model_name(&self.model)?;
        self.recipe.check()?;
        Usage::refuse_if(
            !self.related.is_empty() && !self.recipe.ranks(),
            "--related: got it with base or deep, which learn from one kind of hardware; expected ranking",
        )?;
        self.recipe.models(&self.model).try_for_each(|model| files::check_may_write(model, self.force))?;
        let read: Vec<PathBuf> = self.data.iter().chain(&self.related).cloned().collect();
        self.recipe.check_outputs(&self.model, &read)?;
        let mut datasets = self.selection.keep(datasets::read_ending(&self.data, &self.file_extensions)?)?;
        describe(&mut datasets, || Node::read().hardware())?;
        let mut set = TrainingSet::from_datasets(&datasets, self.method)?;
        if !self.related.is_empty() {
            let related = datasets::read_ending(&self.related, &self.file_extensions)?;
            let related = self.selection.keep_op(related).context("--related")?;
            set = set.with_related(related).context("--related")?;
        }
        let interrupt = Interrupt::install(STOPPING)?;
        if !self.without_kept {
            self.recipe.train(&set, self.seed, &self.model, &interrupt)?;
            return Ok(());
        }
        let (set, kept) = set.split_kept()?;
        let model = self.recipe.train(&set, self.seed, &self.model, &interrupt)?;
        match FirstPicks::new(&model, &kept)?.report() {
            Some(report) => say!("{}", on_kept(&report)),
            None => say!("no problem of a size that is kept for judging"),
        }
        Ok(())
    }
}

fn on_kept(report: &KeptReport) -> String {
    let mut words = format!(
        "on {} kept for judging, first picks reach {:.2} % of the best Triton config",
        output::count(report.problems as usize, "problem"),
        100.0 * report.triton.geomean
    );
    if let Some(everything) = report.everything {
        words += &format!(", {:.2} % of the best of everything", 100.0 * everything.geomean);
    }
    words
}
