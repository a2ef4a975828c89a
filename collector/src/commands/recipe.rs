//! How to train: the flags, and the training that they lead to.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Args;
use diode_model::Model;
use diode_train::{Checkpoint, Fitted, Plan, Progress, TrainOptions, TrainingSet, curves, fit};

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

    /// Draw the loss of every epoch as an SVG picture
    #[arg(long, value_name = "FILE")]
    curves: Option<PathBuf>,

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

/// Added to the name of the model file: what is learnt so far.
const CHECKPOINT: &str = "partial";
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
        let plan = Plan {
            options: self.options(seed),
            folds: self.folds,
            created_at: created_at()?,
            keep_when_stopped: true,
        };
        let beside = path.with_added_extension(CHECKPOINT);
        let mut checkpoint = resumed(&beside, Checkpoint::new(set, &plan));
        let known = checkpoint.clone();
        let mut progress = TrainingProgress::new();
        let mut unwritten = None;
        let Fitted { model, report, losses, stopped } = fit(set, &plan, &known, &mut |step: &Progress| {
            progress.tell(step);
            if let Progress::Learnt { phase, weights } = step {
                checkpoint.add(phase.clone(), weights.clone());
                unwritten = keep(&beside, &checkpoint).err();
            }
            let stop = interrupt.requested() || unwritten.is_some();
            if stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        progress.finish();
        if let Some(error) = unwritten {
            return Err(error);
        }
        let bytes = model.to_bytes()?;
        files::write(path, &bytes)?;
        if stopped {
            eprintln!(
                "stopped: {} has the best weights so far and no figures; the same command goes on from {}",
                path.display(),
                beside.display()
            );
        } else if beside.exists() {
            std::fs::remove_file(&beside).with_context(|| format!("cannot remove {}", beside.display()))?;
        }
        if let Some(folder) = &self.log_dir {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
            let mut history = String::from("phase,epoch,loss\n");
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
        match report {
            Some(report) => text += &metrics(&report),
            None if stopped => text += "not judged: it was stopped\n",
            None => text += "not judged: --folds was 0\n",
        }
        output::text_out(&text)?;
        Ok(model)
    }
}

/// The time that the model states: now, or for a file that is to come out the same again the
/// seconds since 1970 that reproducible builds pass in `SOURCE_DATE_EPOCH`.
fn created_at() -> anyhow::Result<String> {
    let Some(seconds) = std::env::var_os("SOURCE_DATE_EPOCH") else { return Ok(node::now()) };
    let seconds = seconds.to_string_lossy();
    let parsed = seconds.parse().ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    match parsed {
        Some(time) => Ok(time.to_string()),
        None => {
            Err(Usage::new(format!("SOURCE_DATE_EPOCH: got `{seconds}`, expected seconds since 1970")).into())
        }
    }
}

/// What an interrupted training has left, if it was this one.
fn resumed(path: &Path, fresh: Checkpoint) -> Checkpoint {
    let Ok(bytes) = std::fs::read(path) else { return fresh };
    let mut checkpoint = fresh.clone();
    match checkpoint.resume(&bytes) {
        Ok(()) => {
            let networks = output::count(checkpoint.networks(), "network");
            eprintln!("going on from {}, which has {networks}", path.display());
            checkpoint
        }
        Err(error) => {
            eprintln!("note: beginning anew, since {} is of no use: {error}", path.display());
            fresh
        }
    }
}

fn keep(path: &Path, checkpoint: &Checkpoint) -> anyhow::Result<()> {
    files::write(path, &checkpoint.to_bytes()?)
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
