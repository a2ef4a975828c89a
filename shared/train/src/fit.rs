//! A whole training: the network, the library's, and how good such models are on unseen problems.

use std::ops::ControlFlow;

use diode_core::Heuristic;
use diode_core::api::EvaluationReport;
use diode_model::{FEATURE_SET, Metadata, Model, Network, Training, TrainingRange};

use crate::checkpoint::Checkpoint;
use crate::cross_validate::Folds;
use crate::curves::EpochLoss;
use crate::judgement::{Outcome, judgement};
use crate::learner::learn;
use crate::library::add_library;
use crate::mlp::Mlp;
use crate::prepared::{Normalisation, Prepared, prepare};
use crate::progress::{Observer, Progress};
use crate::{TrainError, TrainOptions, TrainingProblem, TrainingSet};

/// What the training of the model itself is called; folds are named after it.
const FINAL: &str = "final";

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub options: TrainOptions,
    /// Parts for cross-validation; 0 for none, and a model that does not say how good it is.
    pub folds: usize,
    /// When the model is made, as RFC 3339.
    pub created_at: String,
    /// Whether someone who stops it wants the best so far.
    pub keep_when_stopped: bool,
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Fitted {
    pub model: Model,
    /// On problems that the models judged had not seen.
    pub report: Option<EvaluationReport>,
    pub losses: Vec<EpochLoss>,
    /// It was stopped, and this is the best so far.
    pub stopped: bool,
}

/// Trains a model on all of a set, then judges the recipe by cross-validation and writes into the
/// model how good its like are. The same data, plan and machine give the same bytes, also when
/// a checkpoint holds some of the networks already.
///
/// The model comes first: whoever stops during the folds has it, only without figures.
pub fn fit(
    set: &TrainingSet,
    plan: &Plan,
    checkpoint: &Checkpoint,
    observe: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
) -> Result<Fitted, TrainError> {
    plan.options.validate()?;
    let folds = match plan.folds {
        0 => None,
        folds => Some(Folds::new(set, folds, plan.options.seed)?),
    };
    let (prepared, normalisation) = prepare(set)?;
    let mut course =
        Course { set, plan, checkpoint, prepared: &prepared, normalisation, losses: Vec::new(), observe };
    let (model, mut stopped) = course.model(FINAL, |_| true)?;
    let mut outcomes = Vec::new();
    let used = folds.as_ref().map(Folds::used).unwrap_or_default();
    for &fold in &used {
        if stopped {
            break;
        }
        let folds = folds.iter();
        let unseen = |problem: &TrainingProblem| folds.clone().any(|folds| folds.of(problem) == fold);
        let phase = format!("fold {} of {}", fold + 1, used.len());
        let judged;
        (judged, stopped) = course.model(&phase, |problem| !unseen(problem))?;
        if !stopped {
            outcomes.extend(Outcome::of(&judged, set, unseen)?);
        }
    }
    let losses = course.losses;
    if stopped && !plan.keep_when_stopped {
        return Err(TrainError::Stopped);
    }
    if stopped || outcomes.is_empty() {
        return Ok(Fitted { model, report: None, losses, stopped });
    }
    let judgement = judgement(&outcomes, used.len());
    let report = Some(judgement.report.clone());
    Ok(Fitted { model: model.with_judgement(judgement)?, report, losses, stopped })
}

/// Trains a model on all of a set, without judging it.
pub fn train(
    set: &TrainingSet,
    options: &TrainOptions,
    created_at: String,
    observe: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
) -> Result<Model, TrainError> {
    let plan = Plan { options: options.clone(), folds: 0, created_at, keep_when_stopped: false };
    Ok(fit(set, &plan, &Checkpoint::new(set, &plan), observe)?.model)
}

/// A training under way.
struct Course<'a> {
    set: &'a TrainingSet,
    plan: &'a Plan,
    checkpoint: &'a Checkpoint,
    /// The set's problems, then the others.
    prepared: &'a [Prepared],
    normalisation: Normalisation,
    losses: Vec<EpochLoss>,
    observe: Observer<'a>,
}

impl Course<'_> {
    /// A model of some problems, and whether it was stopped before its end.
    fn model(
        &mut self,
        phase: &str,
        keep: impl Fn(&TrainingProblem) -> bool,
    ) -> Result<(Model, bool), TrainError> {
        let (set, prepared) = (self.set, self.prepared);
        let all = set.iter().chain(set.others()).zip(prepared);
        let kept: Vec<&Prepared> = all.filter(|(problem, _)| keep(problem)).map(|(_, rows)| rows).collect();
        let (mlp, complete) = self.network(phase, &kept)?;
        let Normalisation { mean, std, .. } = self.normalisation.clone();
        let network = Network::new(mean, std, mlp.layers())?.rounded_to_half()?;
        let model = Model::new(metadata(set, self.plan), network)?;
        Ok((add_library(model, set, self.plan.options.seed, keep)?, !complete))
    }

    fn network(&mut self, phase: &str, problems: &[&Prepared]) -> Result<(Mlp, bool), TrainError> {
        let options = &self.plan.options;
        let mut known = Mlp::untrained(&self.normalisation.idle, options);
        if let Some(weights) = self.checkpoint.network(phase, known.weights.len()) {
            known.weights.copy_from_slice(weights);
            return Ok((known, true));
        }
        let (losses, observe) = (&mut self.losses, &mut *self.observe);
        let learnt = learn(problems, &self.normalisation.idle, options, |epoch, epochs, loss| {
            let phase = phase.to_owned();
            losses.push(EpochLoss { phase: phase.clone(), epoch, loss });
            observe(&Progress::Epoch { phase, epoch, epochs, loss })
        })?;
        let mut complete = learnt.complete;
        if complete {
            let (phase, weights) = (phase.to_owned(), learnt.mlp.weights.clone());
            complete = (self.observe)(&Progress::Learnt { phase, weights }).is_continue();
        }
        Ok((learnt.mlp, complete))
    }
}

/// What is known about a model before it is judged.
fn metadata(set: &TrainingSet, plan: &Plan) -> Metadata {
    Metadata {
        heuristic: Heuristic::Matmul,
        hardware: set.hardware().clone(),
        ops: set.ops(),
        dtypes: set.dtypes(),
        feature_set: FEATURE_SET.to_owned(),
        training: training(set, plan.options.seed, plan.created_at.clone()),
        range: TrainingRange::of(set.iter().map(|problem| &problem.problem)),
        evaluation: None,
        confidence: Vec::new(),
        pick_bias: 1.0,
        library_handicap: 1.0,
    }
}

/// How a model that is trained now on a set comes to be.
pub(crate) fn training(set: &TrainingSet, seed: u64, created_at: String) -> Training {
    Training {
        data_digest: set.digest(),
        problems: set.problems() as u64,
        timings: set.timings() as u64,
        method: set.method(),
        seed,
        created_at,
        tool: concat!("diode ", env!("CARGO_PKG_VERSION")).to_owned(),
    }
}
