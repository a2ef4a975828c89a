//! How to train: the flags, and the training that they lead to.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use diode_model::legacy::Architecture;
use diode_model::{AnyModel, Model, Predictor as _};
use diode_train::{LegacyOptions, Progress, TrainOptions, TrainingSet, cross_validate, train, train_legacy};

use super::old_flags::BatchSize;
use super::report::metrics;
use super::training_progress::TrainingProgress;
use super::{files, report};
use crate::arguments::{at_least_one, real};
use crate::failure::Usage;
use crate::interrupt::Interrupt;
use crate::node;
use crate::output;

/// How to train.
#[derive(Debug, Args)]
#[command(next_help_heading = "Training")]
pub(super) struct Recipe {
    /// Kind of network: ranking, or torch-diode's base or deep, with its recipe
    #[arg(long, value_enum, default_value_t = ModelType::Ranking, value_name = "KIND")]
    model_type: ModelType,

    /// Times that every problem is seen; small datasets get more [default: 60; base, deep: at most 100]
    #[arg(long, alias = "num-epochs", value_name = "N", value_parser = at_least_one)]
    epochs: Option<usize>,

    /// Highest learning rate of the one-cycle schedule; the first one of base and deep [default: 0.008; base, deep: 0.001]
    #[arg(long, value_name = "X", value_parser = real)]
    learning_rate: Option<f64>,

    /// Weight decay of AdamW; of Adam for base and deep [default: 1e-4; base, deep: 1e-5]
    #[arg(long, value_name = "X", value_parser = real)]
    weight_decay: Option<f64>,

    /// Width of the hidden layers [default: 64; deep: 128]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    hidden_dim: Option<usize>,

    /// Number of hidden layers, of deep's blocks [default: 2; deep: 10]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    num_layers: Option<usize>,

    /// Parts for cross-validation; 0 for none, and a model without metrics [default: 4; base, deep: none]
    #[arg(long, value_name = "N", value_parser = report::parse_folds_or_none)]
    folds: Option<usize>,

    /// Write the loss of every epoch to DIR/training_history.csv
    #[arg(long, value_name = "DIR")]
    log_dir: Option<PathBuf>,

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

/// Parts for cross-validation where nobody says otherwise.
const FOLDS: usize = 4;

/// Where the losses go, in the folder of `--log-dir`.
const HISTORY: &str = "training_history.csv";

impl Recipe {
    /// Says what has no meaning here, and refuses what cannot be trained.
    pub(super) fn check(&self) -> Result<(), Usage> {
        let Some(options) = self.legacy_options(0) else {
            self.batch_size
                .mention("a step sees whole problems, of each the fastest and a draw of the other configs");
            if self.patience.is_some() {
                eprintln!(
                    "note: --patience changes nothing: the schedule has a fixed length and ends where it is lowest"
                );
            }
            return self.options(0).validate().map_err(Usage::new);
        };
        if self.folds.is_some() {
            eprintln!("note: --folds changes nothing for base and deep: a tenth of the problems is held out");
        }
        let has_shape = self.hidden_dim.is_some() || self.num_layers.is_some();
        if self.model_type == ModelType::Base && has_shape {
            eprintln!("note: --hidden-dim and --num-layers change nothing for base, whose widths are fixed");
        }
        options.validate().map_err(Usage::new)
    }

    fn options(&self, seed: u64) -> TrainOptions {
        let defaults = TrainOptions::default();
        let width = self.hidden_dim.unwrap_or(defaults.hidden[0]);
        TrainOptions {
            epochs: self.epochs.unwrap_or(defaults.epochs),
            seed,
            hidden: vec![width; self.num_layers.unwrap_or(defaults.hidden.len())],
            learning_rate: self.learning_rate.unwrap_or(defaults.learning_rate),
            weight_decay: self.weight_decay.unwrap_or(defaults.weight_decay),
            ..defaults
        }
    }

    /// For torch-diode's networks: its command's flags and defaults.
    fn legacy_options(&self, seed: u64) -> Option<LegacyOptions> {
        /// The width and the blocks of deep.
        const DEEP: (usize, usize) = (128, 10);
        let architecture = match self.model_type {
            ModelType::Ranking => return None,
            ModelType::Base => Architecture::base(),
            ModelType::Deep => {
                Architecture::deep(self.hidden_dim.unwrap_or(DEEP.0), self.num_layers.unwrap_or(DEEP.1))
            }
        };
        let defaults = LegacyOptions::new(architecture);
        Some(LegacyOptions {
            epochs: self.epochs.unwrap_or(defaults.epochs),
            patience: self.patience.unwrap_or(defaults.patience),
            batch_size: self.batch_size.get().unwrap_or(defaults.batch_size),
            learning_rate: self.learning_rate.unwrap_or(defaults.learning_rate),
            weight_decay: self.weight_decay.unwrap_or(defaults.weight_decay),
            seed,
            ..defaults
        })
    }

    /// Trains on a set, writes the model file and says how good it is.
    pub(super) fn train(
        &self,
        set: &TrainingSet,
        seed: u64,
        path: &Path,
        interrupt: &Interrupt,
    ) -> anyhow::Result<AnyModel> {
        eprintln!(
            "{} on {}: {}, {} ({}); {}",
            path.display(),
            set.hardware().name,
            output::count(set.problems(), "problem"),
            output::count(set.timings(), "timing"),
            set.method(),
            set.left_out(),
        );
        let mut history = String::from("phase,epoch,loss\n");
        let mut progress = TrainingProgress::new();
        let mut observe = |step: &Progress| {
            progress.tell(step);
            let Progress::Epoch { phase, epoch, loss, .. } = step;
            // Writing to a String cannot fail.
            let _ = writeln!(history, "{phase},{epoch},{loss}");
            if interrupt.requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let model = match self.legacy_options(seed) {
            None => AnyModel::Ranking(Box::new(self.train_ranking(set, seed, &mut observe)?)),
            Some(options) => {
                let model = train_legacy(set, &options, node::now(), &mut observe)?;
                AnyModel::Legacy(Box::new(model))
            }
        };
        let bytes = model.to_bytes()?;
        files::write(path, &bytes)?;
        progress.finish();
        if let Some(folder) = &self.log_dir {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
            files::write(&folder.join(HISTORY), history.as_bytes())?;
        }

        let size = bytes.len() as f64 / 1024.0;
        let mut text = format!("{}: {} parameters, {size:.1} KiB\n", path.display(), model.parameters());
        text += &model.evaluation().map_or_else(|| "not judged\n".to_owned(), metrics);
        output::text_out(&text)?;
        Ok(model)
    }

    fn train_ranking(
        &self,
        set: &TrainingSet,
        seed: u64,
        observe: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
    ) -> anyhow::Result<Model> {
        let options = self.options(seed);
        let judged = match self.folds.unwrap_or(FOLDS) {
            0 => None,
            folds => Some(cross_validate(set, &options, folds, observe)?),
        };
        let model = train(set, &options, node::now(), observe)?;
        Ok(match judged {
            Some((report, pick_bias)) => model.with_evaluation(report, pick_bias)?,
            None => model,
        })
    }
}

/// A model file is one that this program can read back.
pub(super) fn check_model_name(path: &Path) -> Result<(), Usage> {
    let is_torchs = path.extension().is_some_and(|ending| ending == "pt" || ending == "pth");
    if is_torchs {
        return Err(Usage::new(format!(
            "{}: got a name of torch's format, expected one that ends in .safetensors, which is what is written",
            path.display()
        )));
    }
    Ok(())
}
