//! A whole training: the model's network, the library's network, and how good such models are on problems
//! that they were not trained on.

use std::collections::BTreeSet;
use std::f64::consts::PI;
use std::iter;
use std::ops::ControlFlow;

use diode_api::EvaluationReport;
use diode_core::{Heuristic, Problem};
use diode_model::{
    FEATURE_SET, Metadata, Model, ModelError, Network, TileNetwork, TileValues, Training, TrainingRange,
};

use crate::judgement::Folds;
use crate::judgement::{FoldModel, JudgedFold, fold_models};
use crate::judgement::{Outcome, judgement};
use crate::learner::learn;
use crate::library::{Comparison, add_library, comparisons};
use crate::network::Mlp;
use crate::options::Plan;
use crate::prepared::{Prepared, TrainingRows, prepare};
use crate::progress::EpochLoss;
use crate::progress::{Checkpoint, LearntNetwork};
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
    /// The models of the folds. Empty without folds.
    pub folds: Vec<FoldModel>,
    pub losses: Vec<EpochLoss>,
}

/// Trains a model on all of a set, then judges the recipe by cross-validation and writes the result into the
/// model. The networks of the folds become further networks of the model. The same data, plan and machine give
/// the same bytes, even if a checkpoint already has some of the networks.
///
/// All networks are trained side by side, the model's own from the beginning. A training that is stopped gives
/// no model; its checkpoint has what is done. The library's network learns from the first picks of the
/// folds' models for problems that these were not trained on, because it will decide about such picks. Without
/// folds it learns from the model's own first picks.
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
    let learnt = course.networks(folds.as_ref(), &used, observe)?;
    let losses = learnt.iter().flat_map(|part| part.losses.clone()).collect();
    let stopped = learnt.iter().any(|part| part.stopped);
    let mut learnt = learnt.into_iter();
    let Some(Part { model, .. }) = learnt.next() else { return Err(TrainError::Stopped) };
    let parts: Vec<(usize, Part)> = used.into_iter().zip(learnt).collect();
    if stopped {
        return Err(TrainError::Stopped);
    }
    let Some(folds) = folds else {
        let seen = comparisons(&model, set, |_| true)?;
        let model = add_library(model, &seen.iter().collect::<Vec<_>>(), plan.options.seed)?;
        return Ok(Fitted::unjudged(model, losses));
    };
    let further = parts.iter().map(|(_, part)| part.model.network().clone()).collect();
    let model = add_library(model.with_further(further)?, &all_but(&parts, None), plan.options.seed)?;
    let judged = parts.iter().map(|(fold, part)| {
        let (parts, folds) = (&parts, &folds);
        move |_: Observer<'_>| {
            let model = add_library(part.model.clone(), &all_but(parts, Some(*fold)), plan.options.seed)?;
            let outcomes = Outcome::of(&model, set, |problem| folds.of(problem) == Some(*fold))?;
            Ok(JudgedFold { fold: *fold, model, outcomes })
        }
    });
    let judged: Vec<JudgedFold> =
        side_by_side(judged.collect(), observe).into_iter().collect::<Result<_, TrainError>>()?;
    let outcomes: Vec<&Outcome> = judged.iter().flat_map(|fold| &fold.outcomes).collect();
    if outcomes.is_empty() {
        return Ok(Fitted::unjudged(model, losses));
    }
    let unseen = outcomes.iter().map(|outcome| outcome.first_pick()).collect();
    let judgement = judgement(&outcomes, parts.len());
    let report = Some(judgement.report.clone());
    let model = model.with_judgement(judgement)?;
    let folds = fold_models(&judged, set, &folds)?;
    Ok(Fitted { model, report, unseen, folds, losses })
}

impl Fitted {
    fn unjudged(model: Model, losses: Vec<EpochLoss>) -> Self {
        Self { model, report: None, unseen: Vec::new(), folds: Vec::new(), losses }
    }
}

/// The comparisons of all folds, without one that may be left out.
fn all_but(parts: &[(usize, Part)], left_out: Option<usize>) -> Vec<&Comparison> {
    let kept = parts.iter().filter(|(fold, _)| Some(*fold) != left_out);
    kept.flat_map(|(_, part)| &part.comparisons).collect()
}

/// Trains a model on all of a set, without judging it.
pub fn train(
    set: &TrainingSet,
    options: &TrainOptions,
    created_at: String,
    observe: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
) -> Result<Model, TrainError> {
    let plan = Plan { options: options.clone(), folds: 0, created_at };
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

/// One network, as a model that does not predict the library yet.
struct Part {
    model: Model,
    losses: Vec<EpochLoss>,
    stopped: bool,
    /// How the library compared with the model's picks on the problems of the fold that it was not trained on.
    comparisons: Vec<Comparison>,
}

impl Course<'_> {
    /// The network that learns from everything comes first, then one for each fold. After a stop, the last ones
    /// may be missing.
    fn networks(
        &self,
        folds: Option<&Folds>,
        used: &BTreeSet<usize>,
        observe: Observer<'_>,
    ) -> Result<Vec<Part>, TrainError> {
        let left_out = iter::once(None).chain(used.iter().copied().map(Some));
        let jobs = left_out.map(|fold| {
            let is_left_out = move |problem: &TrainingProblem| {
                fold.is_some() && fold == folds.and_then(|folds| folds.of(problem))
            };
            move |observe: Observer<'_>| self.part(fold, is_left_out, observe)
        });
        side_by_side(jobs.collect(), observe).into_iter().collect()
    }

    /// Trains a model on all problems but those of a fold.
    fn part(
        &self,
        fold: Option<usize>,
        is_left_out: impl Fn(&TrainingProblem) -> bool,
        observe: Observer<'_>,
    ) -> Result<Part, TrainError> {
        let (set, prepared) = (self.set, self.prepared);
        let phase =
            fold.map_or_else(|| FINAL.to_owned(), |fold| format!("fold {} of {}", fold + 1, self.phases - 1));
        let all = set.learnt_from().zip(&prepared.problems).filter(|((_, problem), _)| !is_left_out(problem));
        let kept: Vec<&TrainingRows> = all
            .flat_map(|((of, problem), rows)| iter::repeat_n(rows, times_seen(set, of, problem)))
            .collect();
        let mut losses = Vec::new();
        let (mlp, complete) = self.network(&phase, &kept, &mut losses, observe)?;
        let network = self.tile_network(&mlp)?;
        let mut metadata = metadata(set, self.plan);
        if fold.is_none() {
            metadata.training.losses = losses.iter().map(|epoch| rounded(epoch.loss)).collect();
        } else {
            // It has not seen all of them, and the file of the folds' models says which.
            metadata.training.sizes = Vec::new();
        }
        let model = Model::from_network(metadata, network)?;
        let comparisons = if complete { comparisons(&model, set, is_left_out)? } else { Vec::new() };
        Ok(Part { model, losses, stopped: !complete, comparisons })
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
        range: TrainingRange::from_problems(set.predictable()),
        evaluation: None,
        confidence: Vec::new(),
        pick_bias: 1.0,
        library_handicap: 1.0,
    }
}

/// The training data and settings of a model, as its file states them.
pub fn training(set: &TrainingSet, seed: u64, created_at: String) -> Training {
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
        sizes: set.sizes(),
    }
}

/// The share of the steps in which the rate rises.
const WARM_UP: f64 = 0.15;
/// The first rate is the highest rate divided by this …
const FIRST: f64 = 25.0;
/// … and the last rate is the first rate divided by this.
const LAST: f64 = 1e4;

/// The learning rate of a step. Steps count from 0.
pub(crate) fn one_cycle(step: usize, steps: usize, highest: f64) -> f64 {
    let first = highest / FIRST;
    let last = first / LAST;
    let warm_up = WARM_UP * steps as f64 - 1.0;
    let end = steps as f64 - 1.0;
    let step = step as f64;
    if step < warm_up {
        cosine(first, highest, step / warm_up)
    } else {
        cosine(highest, last, ((step - warm_up) / (end - warm_up)).clamp(0.0, 1.0))
    }
}

fn cosine(from: f64, to: f64, share: f64) -> f64 {
    to + (from - to) * (1.0 + (PI * share).cos()) / 2.0
}

#[cfg(test)]
mod schedule_tests {
    use super::*;

    #[test]
    fn the_rate_rises_then_falls_to_almost_nothing() {
        let rates: Vec<f64> = (0..1000).map(|step| one_cycle(step, 1000, 1.0)).collect();
        assert!((rates[0] - 0.04).abs() < 1e-12);
        assert!((rates[149] - 1.0).abs() < 1e-12);
        assert!(rates[..150].is_sorted());
        assert!(rates[149..].is_sorted_by(|a, b| a >= b));
        assert!((rates[999] - 4e-6).abs() < 1e-12);
    }

    #[test]
    fn a_few_steps_are_enough() {
        for steps in 1..20 {
            for step in 0..steps {
                let rate = one_cycle(step, steps, 1.0);
                assert!(rate > 0.0 && rate <= 1.0, "{step} of {steps}: {rate}");
            }
        }
    }
}
