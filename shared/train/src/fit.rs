//! A whole training: the model's network, the library's network, and how good such models are on problems
//! that they were not trained on.

use std::ops::ControlFlow;

use diode_core::api::EvaluationReport;
use diode_core::{Heuristic, Problem};
use diode_model::{
    FEATURE_SET, Metadata, Model, ModelError, Network, TileNetwork, TileValues, Training, TrainingRange,
};

use crate::checkpoint::{Checkpoint, LearntNetwork};
use crate::curves::EpochLoss;
use crate::fold_models::{FoldModel, JudgedFold, fold_models};
use crate::folds::Folds;
use crate::judgement::{Outcome, judgement};
use crate::learner::learn;
use crate::library::{Comparison, add_library, comparisons};
use crate::network::Mlp;
use crate::plan::Plan;
use crate::prepared::{Prepared, TrainingRows, prepare};
use crate::progress::{Observer, Progress};
use crate::side_by_side::side_by_side;
use crate::{TrainError, TrainOptions, TrainingProblem, TrainingSet};

/// The phase in which the model itself is trained. Other phases are named after folds.
const FINAL: &str = "final";

/// The result of a training.
#[derive(Debug, Clone)]
pub struct Fitted {
    pub model: Model,
    /// How good such models are on problems that they were not trained on.
    pub report: Option<EvaluationReport>,
    /// The problems of the folds. Each has the share of the best Triton config that the first pick reached,
    /// by a model that was not trained on the problem. Empty without folds.
    pub unseen: Vec<(Problem, f64)>,
    /// The models of the folds. Empty without folds, or if the training was stopped.
    pub folds: Vec<FoldModel>,
    pub losses: Vec<EpochLoss>,
    /// Whether the training was stopped. The model is then the best so far.
    pub stopped: bool,
}

/// Trains a model on all of a set, then judges the recipe by cross-validation and writes the result into the
/// model. The networks of the folds become further networks of the model. The same data, plan and machine give the same bytes, even if a checkpoint already has some of the
/// networks.
///
/// The model is trained first, so that a training that is stopped during the folds still gives a model, but
/// without figures. The folds are trained side by side. The library's network learns from the first picks of
/// the folds' models for problems that these were not trained on, because it will decide about such picks.
/// Without folds it learns from the model's own first picks.
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
    let prepared = prepare(set)?;
    let used = folds.as_ref().map(Folds::used).unwrap_or_default();
    let (options, phases) = (plan.options.for_set(prepared.problems.len()), 1 + used.len());
    let course = Course { set, plan, options, checkpoint, prepared: &prepared, phases };
    let Run { model, mut losses, mut stopped } = course.run(FINAL, |_| true, observe)?;
    let mut parts = Vec::new();
    if let Some(folds) = folds.as_ref().filter(|_| !stopped) {
        let learnt = used.iter().map(|&fold| {
            let (course, phase) = (&course, format!("fold {} of {}", fold + 1, used.len()));
            move |observe: Observer<'_>| {
                course.run(&phase, |problem| folds.of(problem) != Some(fold), observe)
            }
        });
        for (&fold, run) in used.iter().zip(side_by_side(learnt.collect(), observe)) {
            let Run { model, losses: more, stopped: cut_off } = run?;
            losses.extend(more);
            stopped |= cut_off;
            let comparisons = comparisons(&model, set, |problem| folds.of(problem) == Some(fold))?;
            parts.push(Part { fold, model, comparisons });
        }
    }
    if stopped && !plan.keep_when_stopped {
        return Err(TrainError::Stopped);
    }
    let Some(folds) = folds.filter(|_| !stopped) else {
        let seen = comparisons(&model, set, |_| true)?;
        let model = add_library(model, &seen.iter().collect::<Vec<_>>(), plan.options.seed)?;
        return Ok(Fitted::unjudged(model, losses, stopped));
    };
    let further = parts.iter().map(|part| part.model.network().clone()).collect();
    let model = add_library(model.with_further(further)?, &all_but(&parts, None), plan.options.seed)?;
    let judged = parts.iter().map(|part| {
        let (parts, folds) = (&parts, &folds);
        move |_: Observer<'_>| {
            let model = add_library(part.model.clone(), &all_but(parts, Some(part.fold)), plan.options.seed)?;
            let outcomes = Outcome::of(&model, set, |problem| folds.of(problem) == Some(part.fold))?;
            Ok(JudgedFold { fold: part.fold, model, outcomes })
        }
    });
    let judged: Vec<JudgedFold> =
        side_by_side(judged.collect(), observe).into_iter().collect::<Result<_, TrainError>>()?;
    let outcomes: Vec<&Outcome> = judged.iter().flat_map(|fold| &fold.outcomes).collect();
    if outcomes.is_empty() {
        return Ok(Fitted::unjudged(model, losses, stopped));
    }
    let unseen = outcomes.iter().map(|outcome| outcome.first_pick()).collect();
    let judgement = judgement(&outcomes, used.len());
    let report = Some(judgement.report.clone());
    let model = model.with_judgement(judgement)?;
    let folds = fold_models(&judged, set, &folds)?;
    Ok(Fitted { model, report, unseen, folds, losses, stopped })
}

impl Fitted {
    fn unjudged(model: Model, losses: Vec<EpochLoss>, stopped: bool) -> Self {
        Self { model, report: None, unseen: Vec::new(), folds: Vec::new(), losses, stopped }
    }
}

/// The comparisons of all folds, without one that may be left out.
fn all_but(parts: &[Part], left_out: Option<usize>) -> Vec<&Comparison> {
    parts.iter().filter(|part| Some(part.fold) != left_out).flat_map(|part| &part.comparisons).collect()
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

/// What the networks of one training have in common.
struct Course<'a> {
    set: &'a TrainingSet,
    plan: &'a Plan,
    /// The plan's options, for the size of the set.
    options: TrainOptions,
    checkpoint: &'a Checkpoint,
    prepared: &'a Prepared,
    /// How many networks are trained.
    phases: usize,
}

/// One network, as a model.
struct Run {
    model: Model,
    losses: Vec<EpochLoss>,
    stopped: bool,
}

/// A model that was not trained on a fold, and how the library compared with its picks on the fold's
/// problems.
struct Part {
    fold: usize,
    model: Model,
    comparisons: Vec<Comparison>,
}

impl Course<'_> {
    /// Trains a model on some problems. It does not predict the library yet.
    fn run(
        &self,
        phase: &str,
        keep: impl Fn(&TrainingProblem) -> bool,
        observe: Observer<'_>,
    ) -> Result<Run, TrainError> {
        let (set, prepared) = (self.set, self.prepared);
        let all = set.learnt_from().zip(&prepared.problems).filter(|((_, problem), _)| keep(problem));
        let kept: Vec<&TrainingRows> = all
            .flat_map(|((of, problem), rows)| std::iter::repeat_n(rows, times_seen(set, of, problem)))
            .collect();
        let mut losses = Vec::new();
        let (mlp, complete) = self.network(phase, &kept, &mut losses, observe)?;
        let network = self.tile_network(&mlp)?;
        let mut metadata = metadata(set, self.plan);
        if phase == FINAL {
            metadata.training.losses = losses.iter().map(|epoch| rounded(epoch.loss)).collect();
        }
        let model = Model::of(metadata, network)?;
        Ok(Run { model, losses, stopped: !complete })
    }

    /// The network as a model has it.
    fn tile_network(&self, mlp: &Mlp) -> Result<TileNetwork, TrainError> {
        let Prepared { normalisation, tiles, .. } = self.prepared;
        let (mut mean, mut std) = (normalisation.mean.clone(), normalisation.std.clone());
        let values = mlp.values_of_tiles()?.map(|values| TileValues::new(tiles.clone(), values));
        let values = values.transpose().map_err(ModelError::from)?;
        // Values of tiles are used as they are.
        let inputs = mean.len() + values.as_ref().map_or(0, TileValues::width);
        mean.resize(inputs, 0.0);
        std.resize(inputs, 1.0);
        let dense = Network::new(mean, std, mlp.layers()?).map_err(ModelError::from)?;
        Ok(TileNetwork::new(dense, values)?.rounded_to_half()?)
    }

    /// The network, and whether it was trained to the end.
    fn network(
        &self,
        phase: &str,
        problems: &[&TrainingRows],
        losses: &mut Vec<EpochLoss>,
        observe: Observer<'_>,
    ) -> Result<(Mlp, bool), TrainError> {
        let options = &self.options;
        let (idle, tiles) = (&self.prepared.normalisation.idle, self.prepared.tiles.len());
        let loss_of = |epoch, loss| EpochLoss { phase: phase.to_owned(), epoch, loss };
        if let Some(LearntNetwork { weights, losses: known_losses }) = self.checkpoint.network(phase) {
            let known = Mlp::untrained(idle, tiles, options)?;
            known.set_weights(weights).map_err(|_| TrainError::OtherCheckpoint)?;
            losses.extend((1..).zip(known_losses).map(|(epoch, &loss)| loss_of(epoch, loss)));
            return Ok((known, true));
        }
        let learnt = learn(problems, idle, tiles, options, |epoch, epochs, loss| {
            losses.push(loss_of(epoch, loss));
            observe(&Progress::Epoch { phase: phase.to_owned(), phases: self.phases, epoch, epochs, loss })
        })?;
        let mut complete = learnt.complete;
        if complete {
            let losses = losses.iter().map(|epoch| epoch.loss).collect();
            let network = LearntNetwork { weights: learnt.mlp.weights()?, losses };
            complete = observe(&Progress::Learnt { phase: phase.to_owned(), network }).is_continue();
        }
        Ok((learnt.mlp, complete))
    }
}

/// A loss with as many digits as a reader needs. More would only make the model's file longer.
fn rounded(loss: f32) -> f64 {
    (f64::from(loss) * 1e4).round() / 1e4
}

/// How often an epoch uses a problem. Problems of the second method are used several times. They are few, and
/// their configs rank differently, so they would count too little beside the many problems of the first
/// method.
fn times_seen(set: &TrainingSet, of: &TrainingSet, problem: &TrainingProblem) -> usize {
    const MOST: usize = 3;
    let is_own = of.hardware().slug == set.hardware().slug;
    if is_own && Some(problem.method) == set.second_method() {
        (set.problems() / set.others().len()).clamp(1, MOST)
    } else {
        1
    }
}

/// The metadata of a model before it is judged.
fn metadata(set: &TrainingSet, plan: &Plan) -> Metadata {
    Metadata {
        heuristic: Heuristic::Matmul,
        hardware: set.hardware().clone(),
        stands_in_from: None,
        ops: set.ops(),
        dtypes: set.dtypes(),
        feature_set: FEATURE_SET.to_owned(),
        training: training(set, plan.options.seed, plan.created_at.clone()),
        second_method: set.second_method(),
        range: TrainingRange::of(set.predictable()),
        evaluation: None,
        confidence: Vec::new(),
        pick_bias: 1.0,
        library_handicap: 1.0,
    }
}

/// The training data and settings of a model, as its file states them.
pub(crate) fn training(set: &TrainingSet, seed: u64, created_at: String) -> Training {
    Training {
        data_digest: set.digest(),
        problems: set.problems() as u64,
        timings: set.timings() as u64,
        method: set.method(),
        related: set.related().iter().map(|set| set.hardware().slug.clone()).collect(),
        seed,
        created_at,
        tool: concat!("diode ", env!("CARGO_PKG_VERSION")).to_owned(),
        without_kept: set.is_without_kept(),
        losses: Vec::new(),
    }
}
