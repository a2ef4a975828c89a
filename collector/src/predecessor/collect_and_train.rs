use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::Args;
use diode_core::Problem;
use diode_core::ids::ProblemId;
use diode_train::{Evaluation, TrainingSet};

use super::collecting::CollectingArgs;
use super::datasets::mention_losses;
use super::prediction_errors::Validation;
use crate::evaluation;
use crate::input::arguments::{at_least_one, whole};
use crate::input::datasets::{self, Selection, describe};
use crate::input::generator::GeneratorArgs;
use crate::interrupt::Interrupt;
use crate::node::Node;
use crate::output::{self, files};
use crate::training::recipe::{Recipe, check_model_name};

/// Collect, train a model and judge it by problems it has not seen, in one go
///
/// Validation problems are drawn with the seed after that of the training problems. Of a model's
/// layers, a quarter at most is held out instead: validated by, and not trained on.
#[derive(Debug, Args)]
#[command(
    mut_arg("num_shapes", |count| count.default_value("100")),
    after_help = "Example:\n  diode collect-and-train --num-shapes 40 --validation-shapes 10 --max-size 512 --search-space DEFAULT"
)]
pub(crate) struct CollectAndTrain {
    /// Dataset to train on: .json, .msgpack or .msgpack.zst
    #[arg(long, value_name = "FILE", default_value = "matmul_dataset.json")]
    dataset: PathBuf,

    /// Dataset to judge the model by
    #[arg(long, value_name = "FILE", default_value = "matmul_validation_dataset.json")]
    validation_dataset: PathBuf,

    /// Model file to write (.safetensors)
    #[arg(long, value_name = "FILE", default_value = "matmul_model.safetensors")]
    model: PathBuf,

    /// How many validation problems to draw
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = at_least_one)]
    validation_shapes: usize,

    /// How many of the worst predictions and picks to show
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = whole::<usize>)]
    top_n_worst: usize,

    /// Train on the dataset that is there
    #[arg(long)]
    skip_collection: bool,

    /// Neither collect validation problems nor judge the model
    #[arg(long)]
    skip_validation: bool,

    /// Only collect
    #[arg(long)]
    skip_training: bool,

    /// Replace the model file if it exists
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    collecting: CollectingArgs,

    #[command(flatten)]
    generator: GeneratorArgs,

    #[command(flatten)]
    recipe: Recipe,
}

impl CollectAndTrain {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let dataset = self.collecting.output(&self.dataset)?;
        let validation = self.collecting.output(&self.validation_dataset)?;
        self.check(&dataset, &validation)?;
        if !self.skip_collection {
            mention_losses(&[&dataset, &validation]);
        }
        let seed = self.generator.seed;
        let mut unseen = match self.skip_validation {
            true => Vec::new(),
            false => self.generator.problems_to_judge_by(self.validation_shapes)?,
        };
        let problems = if self.skip_collection {
            let datasets = datasets::read(std::slice::from_ref(&dataset))?;
            datasets.into_iter().flat_map(|d| d.solutions).map(|solution| solution.problem).collect()
        } else {
            self.to_train_on(&unseen)?
        };
        self.leave_out(&mut unseen, &problems)?;
        let interrupt = Interrupt::install()?;

        if !self.skip_collection {
            say!("collecting training problems into {}", dataset.display());
            self.collecting.collect(&dataset, None, &problems, seed, &interrupt)?;
            stop_if_asked(&interrupt)?;
        }
        let is_kept = self.skip_collection && validation.exists();
        if !(self.skip_validation || is_kept) {
            say!("collecting validation problems into {}", validation.display());
            self.collecting.collect(&validation, None, &unseen, seed.wrapping_add(1), &interrupt)?;
            stop_if_asked(&interrupt)?;
        }
        if self.skip_training {
            return Ok(());
        }
        let mut datasets = datasets::read(&[dataset])?;
        describe(&mut datasets, || Node::read().hardware())?;
        let set = TrainingSet::from_datasets(&datasets, None)?;
        let model = self.recipe.train(&set, u64::from(seed), &self.model, &interrupt)?;
        if self.skip_validation {
            return Ok(());
        }
        let set = evaluation::read_timings(&model, &validation, None, &Selection::default())?;
        let (evaluation, judged) = Evaluation::new(&model, &set)?;
        let validation = Validation::of(&judged, evaluation.report, self.top_n_worst);
        output::text_out(&format!("\n{}", validation.in_words()))
    }

    /// Refuses at once what would otherwise end the run after hours.
    fn check(&self, dataset: &Path, validation: &Path) -> anyhow::Result<()> {
        check_model_name(&self.model)?;
        self.recipe.check()?;
        if dataset == validation && !self.skip_validation {
            bail!("{}: got one file for both, expected another --validation-dataset", dataset.display());
        }
        if self.skip_collection && !dataset.exists() {
            bail!(
                "{}: no such file to train on; leave out --skip-collection to collect it",
                dataset.display()
            );
        }
        if !self.skip_training {
            let goes_on = self.recipe.goes_on(&self.model, u64::from(self.generator.seed));
            files::check_may_write(&self.model, self.force || goes_on)?;
            self.recipe.check_outputs(&self.model, &[dataset.to_owned(), validation.to_owned()])?;
        }
        let new =
            [(dataset, self.skip_collection), (validation, self.skip_collection || self.skip_validation)];
        for (path, is_kept) in new {
            if files::is_there(path) && !is_kept && !self.collecting.resume {
                bail!(
                    "{} exists; add --resume to go on with it, --skip-collection to use it, or choose another name",
                    path.display()
                );
            }
        }
        Ok(())
    }

    fn to_train_on(&self, unseen: &[Problem]) -> anyhow::Result<Vec<Problem>> {
        let mut problems = self.generator.problems()?;
        if self.generator.of_a_model() && !self.skip_validation {
            problems.retain(|problem| !unseen.contains(problem));
            let (held_out, left) = (output::count(unseen.len(), "problem"), problems.len());
            say!("{held_out} of the model held out to judge by, {left} left to train on");
        }
        Ok(problems)
    }

    /// Leaves out the validation problems that the model is trained on.
    fn leave_out(&self, unseen: &mut Vec<Problem>, trained_on: &[Problem]) -> anyhow::Result<()> {
        let trained_on: HashSet<ProblemId> = trained_on.iter().map(Problem::id).collect();
        let drawn = unseen.len();
        unseen.retain(|problem| !trained_on.contains(&problem.id()));
        if unseen.is_empty() && !self.skip_validation {
            bail!(
                "every validation problem is a training problem too; draw fewer, or from a wider range of sizes"
            );
        }
        if unseen.len() < drawn {
            let left_out = output::count(drawn - unseen.len(), "validation problem");
            say!("note: {left_out} left out, since the model is trained on them");
        }
        Ok(())
    }
}

fn stop_if_asked(interrupt: &Interrupt) -> anyhow::Result<()> {
    if interrupt.requested() {
        bail!("interrupted before training; the same command with --resume goes on");
    }
    Ok(())
}
