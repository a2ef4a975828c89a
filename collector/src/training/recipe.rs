//! The flags that say how to train, and the training itself.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use diode_compat::{AnyModel, Architecture, PredecessorOptions};
use diode_formats::FileKind;
use diode_model::Predictor as _;
use diode_train::{FoldModel, TrainOptions, TrainingSet, curves};

use crate::commands::predecessor::BatchSize;
use crate::evaluation::words::{metrics, parse_folds_or_none};
use crate::failure::Usage;
use crate::input::arguments::{at_least_one, real};
use crate::interrupt::Interrupt;
use crate::output::{self, files};
use crate::training::Trained;

/// How to train.
#[derive(Debug, Args)]
#[command(next_help_heading = "Training")]
pub(crate) struct Recipe {
    /// Kind of network: ranking, or torch-diode's base or deep, with its recipe
    #[arg(long, value_enum, default_value_t = ModelType::Ranking, value_name = "KIND")]
    model_type: ModelType,

    /// Times that every problem is seen [default: 120 from 1,000 problems on, else 60, small datasets more; base, deep:
    /// at most 100]
    #[arg(long, alias = "num-epochs", value_name = "N", value_parser = at_least_one)]
    pub(crate) epochs: Option<usize>,

    /// Highest learning rate of the one-cycle schedule; the first one of base and deep [default: 0.008; base, deep: 0.001]
    #[arg(long, value_name = "X", value_parser = real)]
    learning_rate: Option<f64>,

    /// Weight decay of AdamW; of Adam for base and deep [default: 0.1; base, deep: 1e-5]
    #[arg(long, value_name = "X", value_parser = real)]
    weight_decay: Option<f64>,

    /// Width of the hidden layers [default: 64; deep: 128]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    hidden_dim: Option<usize>,

    /// Number of hidden layers, of deep's blocks [default: 2; deep: 10]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    num_layers: Option<usize>,

    /// Problems that one step learns from; not for base and deep [default: 16 from 1,000 problems on, else 8]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    problems_per_step: Option<usize>,

    /// Parts for cross-validation; 0 for none, and a model without metrics [default: 4; base, deep: none]
    #[arg(long, value_name = "N", value_parser = parse_folds_or_none)]
    folds: Option<usize>,

    /// Train with so many seeds, from --seed on, and keep the one whose first picks did best in cross-validation
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = at_least_one)]
    seeds: usize,

    /// Write the models of the cross-validation, each with the sizes that it has not seen: servers show what these
    /// predict beside what was measured
    #[arg(long, value_name = "FILE")]
    unseen_models: Option<PathBuf>,

    /// Write the loss of every epoch to DIR/training_history.csv
    #[arg(long, value_name = "DIR")]
    log_dir: Option<PathBuf>,

    /// Draw the loss of every epoch as an SVG picture
    #[arg(long, value_name = "FILE")]
    curves: Option<PathBuf>,

    #[arg(long, hide = true, value_parser = at_least_one)]
    patience: Option<usize>,

    #[command(flatten)]
    batch_size: BatchSize,
}

/// The kinds of networks that can be trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ModelType {
    /// Learns the order of configs from scaled, physical features
    Ranking,
    /// torch-diode's plain network
    Base,
    /// torch-diode's residual network
    Deep,
}

/// How many folds cross-validation has if --folds is not given.
const FOLDS: usize = 4;

/// With fewer problems, a fold judges six at most. Then a single problem changes every figure.
const FEW_PROBLEMS: usize = 25;

/// More seeds are a mistake: each of them is a whole training.
const MOST_SEEDS: usize = 100;

/// The extension that is added to the model file's name for a checkpoint.
const CHECKPOINT: &str = "partial";
/// The file with the losses, in the folder of `--log-dir`.
const HISTORY: &str = "training_history.csv";
const HISTORY_HEADER: &str = "phase,epoch,loss\n";

impl Recipe {
    /// Whether the network ranks configs. Such a network can learn from other hardware, too.
    pub(crate) fn ranks(&self) -> bool {
        self.model_type == ModelType::Ranking
    }

    /// The recipe without torch-diode's flags that the ranking network does not know. Says which had no effect.
    pub(crate) fn without_old_flags(mut self) -> Self {
        if self.ranks() {
            self.batch_size
                .mention("a step sees whole problems, of each the fastest and a draw of the other configs");
            if self.patience.is_some() {
                say!(
                    "note: --patience changes nothing: the schedule has a fixed length and ends where it is lowest"
                );
            }
            (self.batch_size, self.patience) = (BatchSize::default(), None);
        }
        self
    }

    /// Prints which flags have no effect here, and refuses settings that cannot be trained.
    pub(crate) fn check(&self) -> Result<(), Usage> {
        let note = |is_so: bool, words: &str| {
            if is_so {
                say!("note: {words}");
            }
        };
        let several = self.seeds > 1;
        let Some(options) = self.predecessor_options(0) else {
            for (flag, is_given) in
                [("--batch-size", self.batch_size.get().is_some()), ("--patience", self.patience.is_some())]
            {
                let words = format_args!(
                    "{flag}: got it with ranking, whose steps and length are fixed; leave it out, or add --model-type deep"
                );
                Usage::refuse_if(is_given, words)?;
            }
            let too_many = format!("--seeds: got {}, expected at most {MOST_SEEDS}", self.seeds);
            Usage::refuse_if(self.seeds > MOST_SEEDS, too_many)?;
            Usage::refuse_if(
                self.unseen_models.is_some() && self.folds == Some(0),
                "--unseen-models: got it with --folds 0, which leaves no problem unseen; expected folds",
            )?;
            Usage::refuse_if(
                several && self.folds == Some(0),
                "--seeds: got several with --folds 0, which compares none; expected folds",
            )?;
            return self.options(0).validate().map_err(Usage::new);
        };
        Usage::refuse_if(
            several,
            "--seeds: got several for base or deep, which are not cross-validated; expected 1",
        )?;
        Usage::refuse_if(
            self.unseen_models.is_some(),
            "--unseen-models: got it with base or deep, which are not cross-validated; expected ranking",
        )?;
        note(
            self.problems_per_step.is_some(),
            "--problems-per-step changes nothing for base and deep: a step sees --batch-size configs",
        );
        note(
            self.folds.is_some(),
            "--folds changes nothing for base and deep: a tenth of the problems is held out",
        );
        note(
            self.model_type == ModelType::Base && (self.hidden_dim.is_some() || self.num_layers.is_some()),
            "--hidden-dim and --num-layers change nothing for base, whose widths are fixed",
        );
        options.validate().map_err(Usage::new)
    }

    /// Makes the folder of the log. Refuses outputs that could not be written after hours of training.
    pub(crate) fn check_outputs(&self, model: &Path, inputs: &[PathBuf]) -> anyhow::Result<()> {
        let models: Vec<&Path> = self.models(model).collect();
        for model in &models {
            files::check_not_input(model, inputs)?;
            files::check_keeps(model, Some(FileKind::Model))?;
        }
        if let Some(folder) = &self.log_dir {
            fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        let history = self.log_dir.as_ref().map(|folder| folder.join(HISTORY));
        let curves = self.curves.as_deref().map(|path| (path, "<svg"));
        let history = history.as_deref().map(|path| (path, HISTORY_HEADER));
        let beside: Vec<(&Path, &str)> = curves.into_iter().chain(history).collect();
        let names = models.iter().copied().chain(beside.iter().map(|(output, _)| *output));
        files::check_distinct(&names.collect::<Vec<_>>())?;
        beside.into_iter().try_for_each(|(output, beginning)| {
            files::check_not_input(output, inputs)?;
            files::check_replaces_report(output, beginning)?;
            files::check_may_write(output, true)
        })
    }

    fn options(&self, seed: u64) -> TrainOptions {
        let defaults = TrainOptions::default();
        let width = self.hidden_dim.unwrap_or(defaults.hidden[0]);
        TrainOptions {
            epochs: self.epochs,
            seed,
            hidden: vec![width; self.num_layers.unwrap_or(defaults.hidden.len())],
            learning_rate: self.learning_rate.unwrap_or(defaults.learning_rate),
            weight_decay: self.weight_decay.unwrap_or(defaults.weight_decay),
            problems_per_step: self.problems_per_step,
            ..defaults
        }
    }

    /// The options for torch-diode's networks, with the defaults of torch-diode's command. `None` for the ranking
    /// network.
    fn predecessor_options(&self, seed: u64) -> Option<PredecessorOptions> {
        let (width, blocks) = Architecture::DEEP;
        let architecture = match self.model_type {
            ModelType::Ranking => return None,
            ModelType::Base => Architecture::base(),
            ModelType::Deep => {
                Architecture::deep(self.hidden_dim.unwrap_or(width), self.num_layers.unwrap_or(blocks))
            }
        };
        let defaults = PredecessorOptions::new(architecture);
        Some(PredecessorOptions {
            epochs: self.epochs.unwrap_or(defaults.epochs),
            patience: self.patience.unwrap_or(defaults.patience),
            batch_size: self.batch_size.get().unwrap_or(defaults.batch_size),
            learning_rate: self.learning_rate.unwrap_or(defaults.learning_rate),
            weight_decay: self.weight_decay.unwrap_or(defaults.weight_decay),
            seed,
            ..defaults
        })
    }

    /// Trains on a set, writes the model file and prints how good the model is.
    pub(crate) fn train(
        &self,
        set: &TrainingSet,
        seed: u64,
        path: &Path,
        interrupt: &Interrupt,
    ) -> anyhow::Result<AnyModel> {
        say!(
            "{} on {}: {}, {} ({}); {}",
            path.display(),
            set.hardware().name,
            output::count(set.problems(), "problem"),
            output::count(set.timings(), "timing"),
            set.method(),
            set.left_out(),
        );
        for related in set.related() {
            say!(
                "beside it {}: {}, {}",
                related.hardware().name,
                output::count(related.problems(), "problem"),
                output::count(related.timings(), "timing"),
            );
        }
        if set.problems() < FEW_PROBLEMS {
            say!(
                "note: {} to learn from: what cross-validation says rests on as many, and of other sizes the model knows little",
                output::count(set.problems(), "problem")
            );
        }
        let Trained { model, folds, losses } = match self.predecessor_options(seed) {
            None => self.best_of_seeds(set, seed, path, interrupt)?,
            Some(options) => super::train_predecessors(set, &options, interrupt)?,
        };
        let bytes = model.to_bytes()?;
        files::write(path, &bytes)?;
        for beside in self.partials(path, seed).filter(|beside| beside.exists()) {
            fs::remove_file(&beside).with_context(|| format!("cannot remove {}", beside.display()))?;
        }
        if let Some(file) = &self.unseen_models {
            match FoldModel::file_of_all(&folds)? {
                Some(bytes) => files::write(file, &bytes)?,
                None => say!("{}: not written, no problem was left out of any model", file.display()),
            }
        }
        if let Some(folder) = &self.log_dir {
            let mut history = String::from(HISTORY_HEADER);
            for at in &losses {
                // Writing to a String cannot fail.
                let _ = writeln!(history, "{},{},{}", at.phase, at.epoch, at.loss);
            }
            files::write(&folder.join(HISTORY), history.as_bytes())?;
        }
        if let Some(picture) = &self.curves {
            files::write(picture, curves(&losses).as_bytes())?;
        }

        let size = bytes.len() as f64 / 1024.0;
        let mut text = format!("{}: {} parameters, {size:.1} KiB\n", path.display(), model.parameters());
        match model.evaluation() {
            Some(report) => text += &metrics(report),
            None => text += "not judged\n",
        }
        output::text_out(&text)?;
        Ok(model)
    }

    /// The files that take a training to make again.
    pub(crate) fn models<'a>(&'a self, model: &'a Path) -> impl Iterator<Item = &'a Path> {
        self.unseen_models.iter().map(PathBuf::as_path).chain([model])
    }

    /// The checkpoints that an interrupted training leaves beside the model file, one for each seed.
    fn partials(&self, path: &Path, first: u64) -> impl Iterator<Item = PathBuf> {
        let (several, path) = (self.seeds > 1, path.to_owned());
        self.all_seeds(first).map(move |seed| match several {
            true => path.with_added_extension(format!("seed{seed}.{CHECKPOINT}")),
            false => path.with_added_extension(CHECKPOINT),
        })
    }

    fn all_seeds(&self, first: u64) -> impl Iterator<Item = u64> + use<> {
        (0..self.seeds as u64).map(move |more| first.wrapping_add(more))
    }

    fn best_of_seeds(
        &self,
        set: &TrainingSet,
        first: u64,
        path: &Path,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Trained> {
        let quality =
            |trained: &Trained| trained.model.evaluation().map_or(0.0, |report| report.top_k["1"].geomean);
        let mut best: Option<Trained> = None;
        for (seed, beside) in self.all_seeds(first).zip(self.partials(path, first)) {
            let folds = self.folds.unwrap_or(FOLDS);
            let trained = super::train(set, self.options(seed), folds, &beside, interrupt)?;
            if self.seeds > 1 {
                say!("seed {seed}: first picks reach {:.2} % of the best", 100.0 * quality(&trained));
            }
            if best.as_ref().is_none_or(|best| quality(&trained) > quality(best)) {
                best = Some(trained);
            }
        }
        best.context("--seeds: got 0, expected at least 1")
    }
}

/// Refuses names of other files, such as torch's models, because this program writes another format.
pub(crate) fn check_model_name(path: &Path) -> Result<(), Usage> {
    match path.extension() {
        Some(ending) if !ending.eq_ignore_ascii_case("safetensors") => Err(Usage::new(format!(
            "{}: got a name that ends in .{}, expected .safetensors, the format that is written",
            path.display(),
            ending.display()
        ))),
        _ => Ok(()),
    }
}
