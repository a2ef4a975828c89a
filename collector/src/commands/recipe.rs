//! How to train: the flags, and the training that they lead to.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use diode_model::Model;
use diode_train::{Progress, TrainOptions, TrainingSet, cross_validate, train};

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
    /// Times that every problem is seen; small datasets get more
    #[arg(long, alias = "num-epochs", default_value_t = TrainOptions::default().epochs, value_name = "N", value_parser = at_least_one)]
    epochs: usize,

    /// Highest learning rate of the one-cycle schedule
    #[arg(long, default_value_t = TrainOptions::default().learning_rate, value_name = "X", value_parser = real)]
    learning_rate: f64,

    /// Weight decay of AdamW
    #[arg(long, default_value_t = TrainOptions::default().weight_decay, value_name = "X", value_parser = real)]
    weight_decay: f64,

    /// Width of the hidden layers
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = at_least_one)]
    hidden_dim: usize,

    /// Number of hidden layers
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = at_least_one)]
    num_layers: usize,

    /// Parts for cross-validation; 0 for none, and a model without metrics
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = report::parse_folds_or_none)]
    folds: usize,

    /// Write the loss of every epoch to DIR/training_history.csv
    #[arg(long, value_name = "DIR")]
    log_dir: Option<PathBuf>,

    #[arg(long, hide = true, value_parser = refuse_model_type)]
    model_type: Option<()>,

    #[arg(long, hide = true, value_parser = at_least_one)]
    patience: Option<usize>,

    #[command(flatten)]
    batch_size: BatchSize,
}

/// torch-diode's two networks were larger and took unscaled features.
fn refuse_model_type(text: &str) -> Result<(), String> {
    let known = if matches!(text, "base" | "deep") {
        "which is not built in; "
    } else {
        "which is no kind of network here; "
    };
    Err(format!(
        "got {text}, {known}expected no --model-type: diode trains one kind of network, \
         of the width and depth that --hidden-dim and --num-layers say"
    ))
}

/// Where the losses go, in the folder of `--log-dir`.
const HISTORY: &str = "training_history.csv";

impl Recipe {
    /// Says what has no meaning here, and refuses what cannot be trained.
    pub(super) fn check(&self) -> Result<(), Usage> {
        self.batch_size
            .mention("a step sees whole problems, of each the fastest and a draw of the other configs");
        if self.patience.is_some() {
            eprintln!(
                "note: --patience changes nothing: the schedule has a fixed length and ends where it is lowest"
            );
        }
        self.options(0).validate().map_err(Usage::new)
    }

    fn options(&self, seed: u64) -> TrainOptions {
        TrainOptions {
            epochs: self.epochs,
            seed,
            hidden: vec![self.hidden_dim; self.num_layers],
            learning_rate: self.learning_rate,
            weight_decay: self.weight_decay,
            ..TrainOptions::default()
        }
    }

    /// Trains on a set, writes the model file and says how good it is.
    pub(super) fn train(
        &self,
        set: &TrainingSet,
        seed: u64,
        path: &Path,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Model> {
        eprintln!(
            "{} on {}: {}, {} ({}); {}",
            path.display(),
            set.hardware().name,
            output::count(set.problems(), "problem"),
            output::count(set.timings(), "timing"),
            set.method(),
            set.left_out(),
        );
        let options = self.options(seed);
        let mut history = String::from("phase,epoch,loss\n");
        let mut progress = TrainingProgress::new();
        let mut observe = |step: &Progress| {
            progress.tell(step);
            let Progress::Epoch { phase, epoch, loss, .. } = step;
            // Writing to a String cannot fail.
            let _ = writeln!(history, "{phase},{epoch},{loss}");
            if interrupt.requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let judged = match self.folds {
            0 => None,
            folds => Some(cross_validate(set, &options, folds, &mut observe)?),
        };
        let mut model = train(set, &options, node::now(), &mut observe)?;
        if let Some((report, pick_bias)) = judged.clone() {
            model = model.with_evaluation(report, pick_bias)?;
        }
        let bytes = model.to_bytes()?;
        files::write(path, &bytes)?;
        progress.finish();
        if let Some(folder) = &self.log_dir {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
            files::write(&folder.join(HISTORY), history.as_bytes())?;
        }

        let size = bytes.len() as f64 / 1024.0;
        let mut text = format!("{}: {} parameters, {size:.1} KiB\n", path.display(), model.parameters());
        match judged {
            Some((report, _)) => text += &metrics(&report),
            None => text += "not judged: --folds was 0\n",
        }
        output::text_out(&text)?;
        Ok(model)
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
