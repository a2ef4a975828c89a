use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use diode_compat::{AnyModel, Speedups};
use diode_core::{Dataset, Problem, Table};
use diode_model::Predictor;
use diode_train::{Baselines, Judged, TrainOptions, TrainingSet, cross_validate, without_a_model};

use crate::evaluation::words::{self, metrics, parse_folds};
use crate::evaluation::{self, Contender, Document, RecipeDocument, Worst, page};
use crate::input::arguments::whole;
use crate::input::datasets::{self, Selection, describe};
use crate::input::models;
use crate::interrupt::Interrupt;
use crate::output::{self, count, files};
use crate::training::TrainingProgress;

/// Judge a model by measured timings
///
/// A share of 97 % means: the best of the first k picks takes 1/0.97 of the time
/// of the best config that was measured. Picks are made among the timed configs.
/// Further models, Inductor's default configs and other ways to choose are judged
/// by the same timings.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode evaluate --model h200.safetensors --dataset held_out.msgpack.zst --report report.html\n  \
                  diode evaluate --model h200.safetensors --model v1_model.pt --dataset held_out.msgpack.zst --json"
)]
pub(crate) struct Evaluate {
    /// Model file, also a .pt of torch-diode's; further ones are compared with the first
    #[arg(long, value_name = "FILE", required = true)]
    model: Vec<PathBuf>,

    /// Dataset, or folder of datasets
    #[arg(long, alias = "data", value_name = "PATH")]
    dataset: PathBuf,

    /// Times of the library kernel, where the dataset has none: {hardware, op, dtype, unit, problems: [{M, N, K, us}]}
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,

    /// Timings of other problems: judges what the nearest of them advise, and their best fixed config
    #[arg(long, value_name = "PATH", num_args = 1.., conflicts_with = "folds")]
    train_data: Vec<PathBuf>,

    /// Write JSON to a file, or without one to stdout
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,

    /// Write a page with plots, which needs nothing else to be seen
    #[arg(long, value_name = "FILE", conflicts_with = "folds")]
    report: Option<PathBuf>,

    /// How many of the worst first picks to show
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = whole::<usize>)]
    worst: usize,

    /// Judge the recipe instead: train on parts of the dataset and judge on the rest
    #[arg(long, value_name = "N", value_parser = parse_folds)]
    folds: Option<usize>,

    /// Judge only problems of sizes that no model was trained on
    #[arg(long, conflicts_with = "folds")]
    unseen: bool,

    /// Compare the picks with the configs of a torch-diode solution too
    #[arg(long, value_name = "FILE", conflicts_with = "folds")]
    max_autotune_solution: Option<PathBuf>,

    /// Judge models of other hardware as they stand in for this one, by its facts: nvidia-h100
    #[arg(long = "as", value_name = "HARDWARE", conflicts_with = "folds")]
    standing_in_for: Option<String>,

    #[command(flatten)]
    selection: Selection,
}

impl Evaluate {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let to_file = self.json.as_ref().filter(|path| path.as_os_str() != "-");
        let json = to_file.map(|path| (path.as_path(), "{"));
        let page = self.report.as_deref().map(|path| (path, page::BEGINNING));
        let outputs: Vec<(&Path, &str)> = json.into_iter().chain(page).collect();
        files::check_distinct(&outputs.iter().map(|(written, _)| *written).collect::<Vec<_>>())?;
        for (written, beginning) in outputs {
            files::check_may_write(written, true)?;
            let read = self.model.iter().chain([&self.dataset]).chain(&self.train_data);
            files::check_not_input(written, read.chain(&self.library).chain(&self.max_autotune_solution))?;
            files::check_replaces_report(written, beginning)?;
        }
        let models = self.model.iter().map(|path| Ok((path, self.read_model(path)?)));
        let models = models.collect::<anyhow::Result<Vec<_>>>()?;
        let (first, others) = models.split_first().context("expected at least one --model")?;
        let set =
            evaluation::read_timings(&first.1, &self.dataset, self.library.as_deref(), &self.selection)?;
        if let Some(folds) = self.folds {
            return self.judge_recipe(&first.1, &set, folds);
        }
        let set = if self.unseen { evaluation::unseen(&models, &set)? } else { set };
        say!("judging the model's own weights");
        let (main, judged) = Contender::judge(first.0, &first.1, &set)?;
        let mut compared = Contender::fed_otherwise(first.0, &first.1, &set)?;
        for (path, model) in others {
            compared.push(Contender::judge(path, model, &set)?.0);
            compared.extend(Contender::fed_otherwise(path, model, &set)?);
        }
        let document = Document {
            baselines: self.baselines(&first.1, &set, &judged)?,
            max_autotune: self.against_solution(&judged)?,
            worst: main.evaluation.worst(self.worst).into_iter().map(Worst::from_row).collect(),
            main,
            judged: "model",
            compared,
        };
        if let Some(path) = &self.report {
            files::write(path, page::page(&document, &judged, &set).as_bytes())?;
            say!("{}: the report", path.display());
        }
        let text = || words::in_words(&document);
        self.publish(&document, text)
    }

    fn read_model(&self, path: &Path) -> anyhow::Result<AnyModel> {
        let model = models::read_model(path)?;
        match &self.standing_in_for {
            Some(name) => {
                evaluation::standing_in_for(model, name).with_context(|| path.display().to_string())
            }
            None => Ok(model),
        }
    }

    fn judge_recipe(&self, model: &AnyModel, set: &TrainingSet, folds: usize) -> anyhow::Result<()> {
        say!("judging the recipe on this dataset by cross-validation, not the model's weights");
        let all = set.iter().chain(set.others()).map(|one| &one.problem);
        let sizes: HashSet<_> = all.map(|p| (p.b, p.m, p.n, p.k)).collect();
        if (2..folds).contains(&sizes.len()) {
            say!(
                "note: got --folds {folds}, but the problems have only {} sizes, so there are as many folds",
                sizes.len()
            );
        }
        let seed = model.training().map_or(TrainOptions::default().seed, |training| training.seed);
        let options = TrainOptions { seed, ..TrainOptions::default() };
        let interrupt = Interrupt::install("stopping: nothing is judged")?;
        let mut progress = TrainingProgress::new();
        let (report, _) = cross_validate(set, &options, folds, &mut |step| {
            progress.tell(step);
            if interrupt.requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        let document = RecipeDocument { report, judged: "recipe" };
        self.publish(&document, || metrics(&document.report))
    }

    /// Ways to choose without a model. The training data leaves out problems that are judged.
    fn baselines(&self, model: &AnyModel, set: &TrainingSet, judged: &[Judged]) -> anyhow::Result<Baselines> {
        if self.train_data.is_empty() {
            return Ok(without_a_model(judged, set, None)?);
        }
        let mut known = self.selection.keep(datasets::read(&self.train_data)?)?;
        describe(&mut known, || Ok(model.ranked_hardware()?))?;
        known.retain(|dataset| dataset.hardware.slug == set.hardware().slug);
        let unseen: HashSet<&Problem> = judged.iter().map(|judged| &judged.problem).collect();
        let left_out = leave_out(&mut known, &unseen);
        if left_out > 0 {
            say!("note: {} of --train-data left out, since they are judged", count(left_out, "problem"));
        }
        let table = Table::from_datasets(&known, None, None).context("--train-data")?;
        Ok(without_a_model(judged, set, Some(table))?)
    }

    fn against_solution(&self, judged: &[Judged]) -> anyhow::Result<Option<Speedups>> {
        let Some(path) = &self.max_autotune_solution else { return Ok(None) };
        let reference = diode_compat::read_reference_configs(path)?;
        Ok(Some(evaluation::compare_with(path, &reference, judged)?.speedups))
    }

    fn publish(&self, document: &impl serde::Serialize, text: impl FnOnce() -> String) -> anyhow::Result<()> {
        match &self.json {
            Some(path) if path.as_os_str() == "-" => return output::json(document),
            Some(path) => {
                let mut bytes = serde_json::to_vec_pretty(document)?;
                bytes.push(b'\n');
                files::write(path, &bytes)?;
            }
            None => {}
        }
        output::text_out(&text())
    }
}

/// Removes some problems from datasets. Returns how many of these problems it found.
fn leave_out(datasets: &mut [Dataset], problems: &HashSet<&Problem>) -> usize {
    let mut found = HashSet::new();
    for dataset in datasets {
        dataset.solutions.retain(|solution| {
            let judged = problems.get(&solution.problem).copied();
            found.extend(judged);
            judged.is_none()
        });
    }
    found.len()
}
