use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use diode_api::KeptReport;
use diode_compat::AnyModel;
use diode_core::{Dataset, Method, is_kept};
use diode_model::Model;
use diode_train::{FirstPicks, TrainOptions, TrainingSet, served};

use crate::failure::Usage;
use crate::input::arguments::whole;
use crate::input::datasets::{self, Selection, describe};
use crate::input::models::read_model;
use crate::interrupt::Interrupt;
use crate::node::Node;
use crate::output::{self, files};
use crate::training::recipe::{Recipe, check_model_name};
use crate::training::{STOPPING, too_few, train_part};

/// Train a model that ranks configs by their predicted times
///
/// The model is trained on all problems; then the recipe is judged by cross-validation, and those
/// metrics are stored in the model. Scaled, grouped and experts problems are learnt by a part of their own.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode train --data cpu.msgpack.zst --output cpu.safetensors --folds 4\n  \
                  diode train --data fp8.msgpack.zst --onto h200 --output mine.safetensors"
)]
pub(crate) struct Train {
    /// Datasets, or folders of datasets; of one kind of hardware
    #[arg(long, aliases = ["dataset", "data-dir"], required = true, num_args = 1.., value_name = "PATH")]
    data: Vec<PathBuf>,

    /// Datasets of other hardware, or folders of them, to learn from as well; nothing is judged by them
    #[arg(long, num_args = 1.., value_name = "PATH")]
    related: Vec<PathBuf>,

    /// Learn scaled, grouped and experts problems only, and take all else from this model of the same hardware
    #[arg(
        long,
        value_name = "MODEL",
        conflicts_with_all = [
            "related", "model_type", "learning_rate", "weight_decay", "hidden_dim", "num_layers", "problems_per_step", "folds",
            "seeds", "unseen_models", "log_dir", "curves"
        ]
    )]
    onto: Option<PathBuf>,

    /// Datasets with scaled, grouped and experts problems that are not learnt: the model states how good picks are on them
    #[arg(long, num_args = 1.., value_name = "PATH")]
    judge: Vec<PathBuf>,

    /// Extensions of the files to read in folders, such as json msgpack [default: all datasets]
    #[arg(long, value_name = "EXT", value_delimiter = ',', num_args = 1..)]
    file_extensions: Vec<String>,

    /// Model file to write (.safetensors)
    #[arg(long = "output", alias = "model", value_name = "FILE")]
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
        let read: Vec<PathBuf> = self.data.iter().chain(&self.related).chain(&self.judge).cloned().collect();
        self.recipe.check_outputs(&self.model, &read)?;
        let mut datasets = self.selection.keep(datasets::read_ending(&self.data, &self.file_extensions)?)?;
        describe(&mut datasets, || Node::read().hardware())?;
        let interrupt = Interrupt::install(STOPPING)?;
        if let Some(base) = &self.onto {
            return self.add_part(base, &datasets, &interrupt);
        }
        let plain = datasets.iter().flat_map(|set| &set.solutions).any(|one| one.problem.op.is_plain());
        Usage::refuse_if(
            !plain && datasets.iter().any(|set| !set.solutions.is_empty()),
            "--data: got scaled and grouped problems alone, expected others beside them, or a model to add them to, with --onto",
        )?;
        let mut set = TrainingSet::from_datasets(&datasets, self.method)?;
        if !self.related.is_empty() {
            let related = datasets::read_ending(&self.related, &self.file_extensions)?;
            let related = self.selection.keep_op(related).context("--related")?;
            set = set.with_related(related).context("--related")?;
        }
        let method = set.method();
        let model = if self.without_kept {
            let (set, kept) = set.split_kept()?;
            let model = self.recipe.train(&set, self.seed, &self.model, &interrupt)?;
            match FirstPicks::new(&model, &kept)?.report() {
                Some(report) => say!("{}", on_kept(&report)),
                None => say!("no problem of a size that is kept for judging"),
            }
            model
        } else {
            self.recipe.train(&set, self.seed, &self.model, &interrupt)?
        };
        let learnt = self.learnt(&datasets, method);
        match (model, too_few(&learnt)) {
            (AnyModel::Ranking(model), None) => self.write_with_part(*model, &datasets, &learnt, &interrupt),
            (AnyModel::Ranking(_), Some(few)) if !learnt.is_empty() => {
                say!("note: {few}: these are not learnt");
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Learns scaled and grouped problems, and adds them to what a model knows.
    fn add_part(&self, base: &Path, datasets: &[Dataset], interrupt: &Interrupt) -> anyhow::Result<()> {
        let AnyModel::Ranking(base) = read_model(base)? else {
            let words = format!(
                "--onto: got a network of torch-diode in {}, expected a model of Diode",
                base.display()
            );
            return Err(Usage::new(words).into());
        };
        let slug = &base.metadata().hardware.slug;
        if let Some(other) = datasets.iter().map(|set| &set.hardware.slug).find(|other| *other != slug) {
            bail!("--onto: got a model of {slug} and timings of {other}, expected one kind of hardware");
        }
        let method = self.method.or_else(|| commonest_method(datasets));
        let learnt = method.map(|method| self.learnt(datasets, method)).unwrap_or_default();
        if let Some(few) = too_few(&learnt) {
            bail!("--data: {few}; collect more problems");
        }
        self.write_with_part(*base, datasets, &learnt, interrupt)
    }

    /// The scaled and grouped problems to learn from.
    fn learnt(&self, datasets: &[Dataset], method: Method) -> Vec<Dataset> {
        served(datasets, method, |problem| !(self.without_kept && is_kept(problem)))
    }

    fn write_with_part(
        &self,
        model: Model,
        datasets: &[Dataset],
        learnt: &[Dataset],
        interrupt: &Interrupt,
    ) -> anyhow::Result<()> {
        let mut others = datasets::read_ending(&self.judge, &self.file_extensions)?;
        let slug = &model.metadata().hardware.slug;
        if let Some(other) = others.iter().map(|set| &set.hardware.slug).find(|other| *other != slug) {
            bail!("--judge: got timings of {other}, expected some of {slug}, as in --data");
        }
        if self.without_kept {
            let method = learnt[0].solutions[0].method;
            others.extend(served(datasets, method, is_kept));
        }
        let part = train_part(learnt, &others, (self.seed, self.recipe.epochs), interrupt)?;
        files::write(&self.model, &model.with_serving(part).to_bytes()?)
    }
}

/// The way in which most scaled and grouped timings were taken.
fn commonest_method(datasets: &[Dataset]) -> Option<Method> {
    let mut counts: BTreeMap<Method, usize> = BTreeMap::new();
    let solutions = datasets.iter().flat_map(|set| &set.solutions);
    for solution in solutions.filter(|one| !one.problem.op.is_plain()) {
        *counts.entry(solution.method).or_default() += solution.configs.len();
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(method, _)| method)
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
