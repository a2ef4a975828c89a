use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Args;
use diode_core::Method;
use diode_train::{TrainOptions, TrainingSet, cross_validate, train};

use super::report::metrics;
use super::training_progress::TrainingProgress;
use super::{files, report};
use crate::interrupt::Interrupt;
use crate::node;
use crate::output;

/// Train a model that ranks configs by their predicted times
///
/// The recipe is judged by cross-validation first; those metrics are stored in the
/// model, which is then trained on all problems.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  diode train --data cpu.msgpack.zst --model cpu.safetensors --folds 4")]
pub(crate) struct Train {
    /// Datasets, or folders of datasets; of one kind of hardware
    #[arg(long, required = true, num_args = 1.., value_name = "PATH")]
    data: Vec<PathBuf>,

    /// Model file to write (.safetensors)
    #[arg(long, value_name = "FILE")]
    model: PathBuf,

    /// Decides the first weights, every random choice and the folds
    #[arg(long, default_value_t = TrainOptions::default().seed)]
    seed: u64,

    /// Times that every problem is seen; small datasets get more
    #[arg(long, default_value_t = TrainOptions::default().epochs, value_name = "N")]
    epochs: usize,

    /// Parts for cross-validation; 0 for none, and a model without metrics
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = report::parse_folds_or_none)]
    folds: usize,

    /// Use timings taken this way, such as median-cold-event [default: the commonest]
    #[arg(long)]
    method: Option<Method>,

    /// Replace the model file if it exists
    #[arg(long)]
    force: bool,
}

impl Train {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        files::check_may_write(&self.model, self.force)?;
        let set = TrainingSet::from_datasets(&files::read_datasets(&self.data)?, self.method)?;
        eprintln!(
            "{} on {}: {}, {} ({}); {}",
            self.model.display(),
            set.hardware().name,
            output::count(set.problems(), "problem"),
            output::count(set.timings(), "timing"),
            set.method(),
            set.left_out(),
        );
        let options = TrainOptions { seed: self.seed, epochs: self.epochs, ..TrainOptions::default() };
        let interrupt = Interrupt::install()?;
        let mut progress = TrainingProgress::new();
        let mut observe = |step: &diode_train::Progress| {
            progress.tell(step);
            if interrupt.requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let judged = match self.folds {
            0 => None,
            folds => Some(cross_validate(&set, &options, folds, &mut observe)?),
        };
        let mut model = train(&set, &options, node::now(), &mut observe)?;
        if let Some((report, pick_bias)) = judged.clone() {
            model = model.with_evaluation(report, pick_bias)?;
        }
        let bytes = model.to_bytes()?;
        files::write(&self.model, &bytes)?;
        progress.finish();

        let size = bytes.len() as f64 / 1024.0;
        let mut text =
            format!("{}: {} parameters, {size:.1} KiB\n", self.model.display(), model.parameters());
        match judged {
            Some((report, _)) => text += &metrics(&report),
            None => text += "not judged: --folds was 0\n",
        }
        output::text_out(&text)
    }
}
