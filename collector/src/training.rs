//! Trains a model on datasets.

pub(crate) mod recipe;

use std::fs::File;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::Path;

use anyhow::Context as _;
use diode_compat::{AnyModel, PredecessorOptions, train_predecessor};
use diode_core::Dataset;
use diode_model::Serving;
use diode_train::{
    Checkpoint, EpochLoss, Fitted, FoldModel, LEAST_SERVED, Plan, Share, TrainError, TrainOptions,
    TrainingSet, fit, judge_serving, serving_figures, serving_options, train_serving,
};

use crate::failure::Interrupted;
use crate::interrupt::Interrupt;
use crate::node::time_of_making;
use crate::output::log::Progress;
use crate::output::{self, files};

/// What happens at the first Ctrl-C.
pub(crate) const STOPPING: &str =
    "stopping at the end of this step: what is learnt so far is kept, no model is written";

/// A trained model of any kind, and how its training went.
pub(crate) struct Trained {
    pub(crate) model: AnyModel,
    /// Those of the cross-validation; none without one.
    pub(crate) folds: Vec<FoldModel>,
    pub(crate) losses: Vec<EpochLoss>,
}

/// The most bytes of a checkpoint, enough for 30 networks of the largest kind.
const MAX_PARTIAL: u64 = 1 << 30;

/// Trains a network on all problems, and the networks of cross-validation. The file `beside` keeps
/// what is learnt so far.
fn train(
    set: &TrainingSet,
    options: TrainOptions,
    folds: usize,
    beside: &Path,
    interrupt: &Interrupt,
) -> anyhow::Result<Trained> {
    let plan = Plan { options, folds, created_at: time_of_making()? };
    let mut checkpoint = resumed(beside, Checkpoint::new(set, &plan))?;
    let known = checkpoint.clone();
    let mut progress = TrainingProgress::new();
    let mut unwritten = None;
    let ended = fit(set, &plan, &known, &mut |step: &diode_train::Progress| {
        progress.tell(step);
        if let diode_train::Progress::Learnt { phase, network } = step {
            checkpoint.add(phase.clone(), network.clone());
            unwritten = keep(beside, &checkpoint).err();
        }
        let stop = interrupt.requested() || unwritten.is_some();
        if stop { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    if let Some(error) = unwritten {
        return Err(error);
    }
    let Fitted { model, folds, losses, .. } = match ended {
        Err(TrainError::Stopped) => {
            let kept = output::count(checkpoint.networks(), "network");
            let shown = beside.display();
            let words = format!(
                "interrupted: no model is written; {shown} keeps {kept}, and the same command goes on"
            );
            return Err(Interrupted::new(words).into());
        }
        ended => ended?,
    };
    Ok(Trained { model: AnyModel::Ranking(Box::new(model)), folds, losses })
}

/// Trains one torch-diode network.
fn train_predecessors(
    set: &TrainingSet,
    options: &PredecessorOptions,
    interrupt: &Interrupt,
) -> anyhow::Result<Trained> {
    let mut progress = TrainingProgress::new();
    let mut losses = Vec::new();
    let model = train_predecessor(set, options, time_of_making()?, &mut |step: &diode_train::Progress| {
        progress.tell(step);
        if let diode_train::Progress::Epoch { phase, epoch, loss, .. } = step {
            losses.push(EpochLoss { phase: phase.clone(), epoch: *epoch, loss: *loss });
        }
        if interrupt.requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    Ok(Trained { model: AnyModel::Predecessor(Box::new(model)), folds: Vec::new(), losses })
}

/// Trains the part of a model for scaled, grouped and experts problems, and judges it by others. Says how good it is.
pub(crate) fn train_part(
    learnt: &[Dataset],
    others: &[Dataset],
    (seed, epochs): (u64, Option<usize>),
    interrupt: &Interrupt,
) -> anyhow::Result<Serving> {
    let defaults = serving_options();
    let options = TrainOptions { seed, epochs: epochs.or(defaults.epochs), ..defaults };
    let mut progress = Progress::new(100, "%");
    let ended = train_serving(learnt, &options, &mut |epoch, epochs, loss| {
        let message = format!("scaled and grouped problems, epoch {epoch} of {epochs} · loss {loss:.4}");
        progress.set((100 * epoch / epochs) as u64, &message);
        if interrupt.requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    let mut part = match ended {
        Err(TrainError::Stopped) => {
            let words = "interrupted: the part for scaled and grouped problems is not learnt";
            return Err(Interrupted::new(words).into());
        }
        ended => ended?,
    };
    part.about.judged = serving_figures(&judge_serving(&part, others)?);
    let problems = output::count(part.about.problems as usize, "scaled or grouped problem");
    say!("learnt from {problems}, {}", output::count(part.about.timings as usize, "timing"));
    for figures in &part.about.judged {
        let (mean, worst) = figures.first;
        let problems = output::count(figures.problems as usize, "other problem");
        say!(
            "{}: on {problems}, first picks reach {:.2} % of the best of everything, at worst {:.1} %",
            figures.kind,
            100.0 * mean,
            100.0 * worst
        );
    }
    Ok(part)
}

/// Why the part for scaled and grouped problems is not learnt from so few, if it is not.
pub(crate) fn too_few(learnt: &[Dataset]) -> Option<String> {
    let problems: usize = learnt.iter().map(|set| set.solutions.len()).sum();
    let few = format!("got {problems} scaled and grouped problems to learn from, expected {LEAST_SERVED}");
    (problems < LEAST_SERVED).then_some(few)
}

/// The checkpoint of an interrupted training, or a new one. The checkpoint of another training is
/// refused and stays.
fn resumed(path: &Path, fresh: Checkpoint) -> anyhow::Result<Checkpoint> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_PARTIAL).read_to_end(&mut bytes));
    let mut checkpoint = fresh;
    if read.is_err() {
        return Ok(checkpoint);
    }
    checkpoint.resume(&bytes).with_context(|| path.display().to_string())?;
    let networks = output::count(checkpoint.networks(), "network");
    say!("going on from {}, which has {networks}", path.display());
    Ok(checkpoint)
}

fn keep(path: &Path, checkpoint: &Checkpoint) -> anyhow::Result<()> {
    files::write(path, &checkpoint.to_bytes()?)
}

/// Shows how much of the training is done.
pub(crate) struct TrainingProgress {
    share: Share,
    shown: Progress,
}

impl TrainingProgress {
    pub(crate) fn new() -> Self {
        Self { share: Share::default(), shown: Progress::new(100, "%") }
    }

    pub(crate) fn tell(&mut self, step: &diode_train::Progress) {
        let Some(share) = self.share.after(step) else { return };
        let diode_train::Progress::Epoch { phase, epoch, epochs, loss, .. } = step else { return };
        let message = format!("{phase}, epoch {epoch} of {epochs} · loss {loss:.4}");
        self.shown.set((100.0 * share) as u64, &message);
    }
}
