//! One training, from a dataset to a model file. It takes long, so it has a thread of its own.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use diode_api::{
    Epoch, EvaluationReport, Job, JobRequest, KeptReport, ModelSource, ModelState, ModelSummary, ModelType,
};
use diode_compat::{
    Architecture, PredecessorMetadata, PredecessorModel, PredecessorOptions, train_predecessor,
};
use diode_core::hardware::Hardware;
use diode_core::ids::{Digest, JobId, ModelId};
use diode_core::stats::TIE;
use diode_core::{Config, DType, Heuristic, Op, Problem};
use diode_model::{Metadata, Model, ModelError, Predictor, Training};
use diode_train::{
    Checkpoint, FirstPicks, Fitted, FoldModel, Judge, Plan, Progress, Share, TrainError, TrainOptions,
    TrainingSet, fit,
};

use super::admitted::Admitted;
use crate::jobs::worker::served;
use crate::store::{ComparedWithPublished, Now, PickChange};

/// A model, its file and its results.
pub(super) struct Trained {
    pub(super) summary: ModelSummary,
    pub(super) hardware: Hardware,
    pub(super) bytes: Vec<u8>,
    /// The models of the model's cross-validation, in the form in which the database stores them.
    pub(super) unseen_models: Option<Vec<u8>>,
    /// The model's picks for the problems that are kept for judging.
    pub(super) kept: OnKept,
    /// Problems that the model had not seen, with the share of the best speed that the model's first picks
    /// reach.
    pub(super) unseen: Vec<(Problem, f64)>,
}

/// Why no model was made.
#[derive(Debug)]
pub(super) enum Failure {
    /// This worker must stop. Another worker may do the job.
    Stopped,
    /// The job was cancelled, or another worker has taken over.
    LostClaim,
    /// The job failed, and trying again will not help.
    Failed(String),
    /// The database or the blobs failed. Trying again may help.
    Backend(anyhow::Error),
}

impl From<TrainError> for Failure {
    fn from(error: TrainError) -> Self {
        match error {
            TrainError::Stopped => Self::Stopped,
            other => Self::Failed(other.to_string()),
        }
    }
}

/// Trains a model on all problems that may be learnt, except those that are kept for judging. The model's file states how
/// good such models are on problems that they have not seen. The kept problems that are known then judge the model.
/// `diode train --without-kept` does the same and gives the same bytes, but for the part for what models are served with:
/// it is learnt, too, or taken from the published model.
pub(super) fn train(
    admitted: Admitted,
    in_force: Option<&Model>,
    job: &Job,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(f64, String),
) -> Result<Trained, Failure> {
    let Admitted { dataset, judged, alone, .. } = admitted;
    let (set, kept) =
        TrainingSet::from_datasets(std::slice::from_ref(&dataset), job.request.method)?.split_kept()?;
    let kept = kept.only(|problem| judged.contains(problem));
    let mut share = Share::default();
    let mut observe = |progress: &Progress| {
        if let (Some(share), Progress::Epoch { phase, epoch, epochs, loss, .. }) =
            (share.after(progress), progress)
        {
            let (epoch, epochs) = (*epoch as u32, *epochs as u32);
            let said = Epoch { phase: phase.clone(), epoch, epochs, loss: f64::from(*loss) };
            tell(share, said.to_string());
        }
        if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    // The time is rounded down to whole seconds, as on the command line.
    let created_at = Now::read().whole_second().rfc3339();
    let mut network = Network::learn(&set, &job.request, created_at, &mut observe)?;
    if let Network::Ranking { model, .. } = &mut network {
        let mut tell = |message: String| tell(1.0, message);
        let (method, seed) = (set.method(), job.request.seed);
        if let Some(part) = served::part(&dataset, method, seed, in_force, stop, &mut tell)? {
            **model = model.as_ref().clone().with_serving(part);
        }
    }
    let failed = |error: ModelError| Failure::Failed(error.to_string());
    let bytes = network.to_bytes().map_err(failed)?;
    let unseen_models = network.unseen_models().map_err(failed)?;
    let picks = FirstPicks::of_while(network.predictor(), &kept, &|| !stop.load(Ordering::Relaxed))?;
    let about = network.about().map_err(Failure::Failed)?;
    let found = Some((&job.id, picks.report()));
    let summary = summary(&about, network.predictor().parameters(), &bytes, found);
    let hardware = about.hardware.clone();
    let sample =
        if alone.is_empty() { None } else { Some(Sample::of(&set, &kept, &judged, network.predictor())?) };
    let unseen = network.shares_of_best(&kept, &picks);
    let kept = OnKept { problems: kept, picks, sample };
    Ok(Trained { summary, hardware, bytes, unseen_models, kept, unseen })
}

/// The number of folds. For each fold, a model is trained without it and judged on it, so on problems that the
/// model has not seen.
const FOLDS: usize = 4;

enum Network {
    Ranking {
        model: Box<Model>,
        /// See [`diode_train::Fitted`].
        unseen: Vec<(Problem, f64)>,
        folds: Vec<FoldModel>,
    },
    Predecessor(Box<PredecessorModel>),
}

impl Network {
    fn learn(
        set: &TrainingSet,
        request: &JobRequest,
        created_at: String,
        observe: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
    ) -> Result<Self, TrainError> {
        let architecture = match request.model_type {
            ModelType::Ranking => return Self::learn_ranking(set, request.seed, created_at, observe),
            ModelType::Base => Architecture::base(),
            ModelType::Deep => Architecture::deep(Architecture::DEEP.0, Architecture::DEEP.1),
        };
        let options = PredecessorOptions { seed: request.seed, ..PredecessorOptions::new(architecture) };
        let model = train_predecessor(set, &options, created_at, observe)?;
        Ok(Self::Predecessor(Box::new(model)))
    }

    fn learn_ranking(
        set: &TrainingSet,
        seed: u64,
        created_at: String,
        observe: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
    ) -> Result<Self, TrainError> {
        let options = TrainOptions { seed, ..TrainOptions::default() };
        let folds = if set.problems() < FOLDS { 0 } else { FOLDS };
        let plan = Plan { options, folds, created_at };
        let Fitted { model, unseen, folds, .. } = fit(set, &plan, &Checkpoint::new(set, &plan), observe)?;
        Ok(Self::Ranking { model: Box::new(model), unseen, folds })
    }

    fn predictor(&self) -> &dyn Predictor {
        match self {
            Self::Ranking { model, .. } => model.as_ref(),
            Self::Predecessor(model) => model.as_ref(),
        }
    }

    /// How near the best the first picks are for problems that the model has not seen: problems of the folds, and
    /// kept problems. Empty for torch-diode's networks, because nothing is done with their shares.
    fn shares_of_best(self, kept: &TrainingSet, picks: &FirstPicks) -> Vec<(Problem, f64)> {
        let Self::Ranking { mut unseen, .. } = self else { return Vec::new() };
        unseen.extend(kept.iter().map(|kept| kept.problem.clone()).zip(picks.shares()));
        unseen
    }

    fn to_bytes(&self) -> Result<Vec<u8>, ModelError> {
        match self {
            Self::Ranking { model, .. } => model.to_bytes(),
            Self::Predecessor(model) => model.to_bytes(),
        }
    }

    /// The file with the models of the cross-validation, if there are any.
    fn unseen_models(&self) -> Result<Option<Vec<u8>>, ModelError> {
        let Self::Ranking { folds, .. } = self else { return Ok(None) };
        FoldModel::file_of_all(folds)
    }

    /// What the model's file states. Fails if the file states nothing, like torch-diode's own files.
    fn about(&self) -> Result<About<'_>, String> {
        match self {
            Self::Ranking { model, .. } => Ok(model.metadata().into()),
            Self::Predecessor(model) => {
                let metadata = model.metadata().ok_or("the trained model says nothing of itself")?;
                Ok(metadata.into())
            }
        }
    }
}

/// A new model counts as no worse if its first picks take at most this share longer than those of the published
/// model. Timings near the best vary more than that from launch to launch.
pub(super) const MARGIN: f64 = 0.005;

/// With fewer problems than this, a single problem would decide.
pub(super) const LEAST_PROBLEMS: usize = 5;

/// A model waits for an administrator if it has learnt what one contributor alone has seen, and so large a share of its
/// first picks is slower than those of the published model, by what others have measured.
const MOST_CHANGED: f64 = 0.05;

/// For how many problems first picks are compared at most.
const COMPARED: usize = 200;

/// A model's first picks, and their problems.
pub(super) struct OnKept {
    pub(super) problems: TrainingSet,
    pub(super) picks: FirstPicks,
    /// `None` if the model has learnt nothing that one contributor alone has seen.
    pub(super) sample: Option<Sample>,
}

/// Problems that are known, learnt or kept, with a model's first pick for each and its measured time.
pub(super) struct Sample {
    problems: TrainingSet,
    first: Vec<(Config, f64)>,
}

impl Sample {
    fn of(
        learnt: &TrainingSet,
        kept: &TrainingSet,
        judged: &BTreeSet<Problem>,
        model: &dyn Predictor,
    ) -> Result<Self, TrainError> {
        let known = learnt.only(|problem| judged.contains(problem));
        let problems = known.joined(kept).sample(COMPARED);
        let first = Self::first(&problems, model)?;
        Ok(Self { problems, first })
    }

    fn first(problems: &TrainingSet, model: &dyn Predictor) -> Result<Vec<(Config, f64)>, TrainError> {
        let mut judge = Judge::new(model);
        problems.iter().map(|problem| Ok(judge.judge(problems, problem)?.first())).collect()
    }

    /// The first picks that differ from those of the published model, if their times do.
    fn changes(&self, published: &Model) -> Result<Vec<PickChange>, TrainError> {
        let before = Self::first(&self.problems, published)?;
        let change = |((problem, before), after): ((&diode_train::TrainingProblem, _), &_)| {
            let ((before, before_us), (after, after_us)): ((Config, f64), (Config, f64)) = (before, *after);
            let is_change = before != after && (after_us / before_us).ln().abs() > TIE;
            let (problem, method) = (problem.problem.clone(), problem.method);
            is_change.then_some(PickChange { problem, method, before, before_us, after, after_us })
        };
        Ok(self.problems.iter().zip(before).zip(&self.first).filter_map(change).collect())
    }
}

/// The result of comparing a model with the published one.
pub(super) struct Compared {
    /// The published model, and its first picks. `None` if there is no published model that can be judged.
    pub(super) beside: Option<ModelId>,
    pub(super) others: Option<FirstPicks>,
    /// See [`FirstPicks::beside`].
    pub(super) speed: Option<f64>,
    pub(super) no_worse: bool,
    pub(super) why: String,
    /// The first picks that would change, if an administrator must see them.
    pub(super) changes: Vec<PickChange>,
}

impl Compared {
    /// The result for a model of this type. Only models that programs take by themselves are published.
    pub(super) fn of_type(self, model_type: ModelType) -> Self {
        if model_type == ModelType::Ranking {
            return self;
        }
        let found = match (&self.beside, self.speed) {
            (Some(id), Some(speed)) => {
                format!(
                    ": its first picks are {speed:.4} times as fast as those of {id} on the kept problems"
                )
            }
            _ => String::new(),
        };
        Self {
            no_worse: false,
            why: format!("`{model_type}` is for comparison and never published{found}"),
            ..self
        }
    }
}

impl From<Compared> for ComparedWithPublished {
    fn from(Compared { beside, no_worse, why, changes, .. }: Compared) -> Self {
        Self { beside, publish: no_worse, why, changes }
    }
}

impl OnKept {
    /// Compares a model with the published one and its file, if there is one. With large sets this takes long. The
    /// result has no meaning once `goes_on` returns false.
    pub(super) fn judge(
        &self,
        published: Option<(&ModelSummary, Option<&[u8]>)>,
        goes_on: &dyn Fn() -> bool,
    ) -> Compared {
        let told = |beside, no_worse, why| {
            let changes = Vec::new();
            Compared { beside, others: None, speed: None, no_worse, why, changes }
        };
        let Some((published, file)) = published else {
            return told(None, true, "the first model of its kind here".to_owned());
        };
        let (id, beside) = (&published.id, Some(published.id.clone()));
        match file.map(Model::from_bytes) {
            None => told(beside, true, format!("the file of {id} is missing")),
            Some(Err(error)) => told(beside, true, format!("{id} cannot be used any more: {error}")),
            Some(Ok(model)) => match self.compare(id, &model, goes_on) {
                Ok(compared) => Compared { beside, ..compared },
                Err((no_worse, why)) => told(beside, no_worse, why),
            },
        }
    }

    /// If nothing can be compared, the error has the decision and the reason.
    fn compare(
        &self,
        id: &ModelId,
        model: &Model,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Compared, (bool, String)> {
        let problems = self.problems.problems();
        if problems < LEAST_PROBLEMS {
            let why = format!(
                "of the problems that are kept for judging, {problems} measured: too few to compare it with {id}, \
                 expected at least {LEAST_PROBLEMS}"
            );
            return Err((false, why));
        }
        let others = FirstPicks::of_while(model, &self.problems, goes_on)
            .map_err(|error| (true, format!("{id} cannot be judged: {error}")))?;
        let speed = self.picks.beside(&others);
        let seen = if model.metadata().training.without_kept { "" } else { ", which may have learnt them" };
        let why = format!(
            "on {problems} kept problems its first picks are {:.4} times as fast as those of {id}{seen}; {} or more is \
             no worse",
            speed,
            1.0 - MARGIN
        );
        let mut found = Compared {
            beside: None,
            others: Some(others),
            speed: Some(speed),
            no_worse: speed >= 1.0 - MARGIN,
            why,
            changes: Vec::new(),
        };
        if let Some(sample) = &self.sample {
            let cannot = |error: TrainError| (false, format!("its first picks cannot be compared: {error}"));
            let (all, changes) = (sample.first.len(), sample.changes(model).map_err(cannot)?);
            let slower = changes.iter().filter(|change| change.after_us > change.before_us).count();
            if slower as f64 > MOST_CHANGED * all as f64 {
                found.no_worse = false;
                found.why = format!(
                    "{}; it has learnt what one contributor alone has seen, and by what others have measured {slower} of \
                     {all} first picks are slower than before: it waits for an administrator",
                    found.why
                );
            }
            found.changes = changes;
        }
        Ok(found)
    }
}

/// What the file of every type of model states.
pub(super) struct About<'a> {
    pub(super) model_type: ModelType,
    heuristic: Heuristic,
    pub(super) hardware: &'a Hardware,
    ops: &'a [Op],
    dtypes: &'a [DType],
    feature_set: &'a str,
    training: &'a Training,
    evaluation: Option<&'a EvaluationReport>,
}

impl<'a> From<&'a Metadata> for About<'a> {
    fn from(metadata: &'a Metadata) -> Self {
        Self {
            model_type: ModelType::Ranking,
            heuristic: metadata.heuristic,
            hardware: &metadata.hardware,
            ops: &metadata.ops,
            dtypes: &metadata.dtypes,
            feature_set: &metadata.feature_set,
            training: &metadata.training,
            evaluation: metadata.evaluation.as_ref(),
        }
    }
}

impl<'a> From<&'a PredecessorMetadata> for About<'a> {
    fn from(metadata: &'a PredecessorMetadata) -> Self {
        let model_type = match metadata.architecture {
            Architecture::Deep { .. } => ModelType::Deep,
            Architecture::Base { .. } | Architecture::V1 { .. } => ModelType::Base,
        };
        Self {
            model_type,
            heuristic: metadata.heuristic,
            hardware: &metadata.hardware,
            ops: &metadata.ops,
            dtypes: &metadata.dtypes,
            feature_set: &metadata.feature_set,
            training: &metadata.training,
            evaluation: metadata.evaluation.as_ref(),
        }
    }
}

/// The summary of a model that no job of this server has trained.
pub(crate) fn summarise(model: &Model, bytes: &[u8]) -> ModelSummary {
    summary(&model.metadata().into(), model.parameters(), bytes, None)
}

/// The summary of a model, from its file and from the results of the job that trained it.
pub(super) fn summary(
    about: &About<'_>,
    parameters: u64,
    bytes: &[u8],
    trained: Option<(&JobId, Option<KeptReport>)>,
) -> ModelSummary {
    let id = ModelId::of(bytes);
    let (job, kept) = trained.map_or((None, None), |(job, kept)| (Some(job), kept));
    let slug = &about.hardware.slug;
    let of_type = match about.model_type {
        ModelType::Ranking => String::new(),
        other => format!("-{other}"),
    };
    ModelSummary {
        file_name: format!("{}{of_type}-{slug}-{id}.safetensors", about.heuristic),
        id,
        heuristic: about.heuristic,
        model_type: about.model_type,
        hardware: slug.clone(),
        ops: about.ops.to_vec(),
        dtypes: about.dtypes.to_vec(),
        feature_set: about.feature_set.to_owned(),
        parameters,
        digest: Digest::of(bytes),
        bytes: bytes.len() as u64,
        source: if job.is_some() { ModelSource::Trained } else { ModelSource::Shipped },
        job: job.cloned(),
        created_at: about.training.created_at.clone(),
        data_digest: about.training.data_digest.clone(),
        training_problems: about.training.problems,
        training_timings: about.training.timings,
        evaluation: about.evaluation.cloned(),
        kept,
        withdrawn_uploads: 0,
        unseen_models: false,
        state: ModelState::Unpublished,
        reason: String::new(),
        pinned: false,
        contribution: None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use diode_formats::read_file;

    use super::*;

    /// The shipped model against itself, after every so many-th of its first picks was made slower.
    fn compared(every: usize) -> Compared {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../trained_models/matmul/nvidia-h100");
        let model = std::fs::read(folder.join("matmul-nvidia-h100.safetensors")).unwrap();
        let model = Model::from_bytes(&model).unwrap();
        let datasets = read_file(&folder.join("data/h100-mm-bf16-nn.msgpack.zst")).unwrap().datasets;
        let set = TrainingSet::from_datasets(&datasets, None).unwrap();
        let judged = set.iter().map(|problem| problem.problem.clone()).collect();
        let (learnt, problems) = set.split_kept().unwrap();
        let picks = FirstPicks::new(&model, &problems).unwrap();
        let mut sample = Sample::of(&learnt, &problems, &judged, &model).unwrap();
        assert!(sample.first.len() >= 100, "{}", sample.first.len());
        let configs: Vec<Config> = sample
            .problems
            .iter()
            .map(|problem| *sample.problems.config(problem.timings[9].config))
            .collect();
        let others = sample.first.iter_mut().zip(configs).step_by(every);
        for ((config, us), other) in others {
            (*config, *us) = (if other == *config { Config::library(false) } else { other }, *us * 1.2);
        }
        OnKept { problems, picks, sample: Some(sample) }
            .compare(&ModelId::of(b"other"), &model, &|| true)
            .unwrap()
    }

    #[test]
    fn a_model_that_makes_many_first_picks_slower_waits_for_an_administrator() {
        let many = compared(10);
        assert!(!many.no_worse && many.why.contains("waits for an administrator"), "{}", many.why);
        assert!(many.changes.iter().all(|change| change.after_us > change.before_us));
        let few = compared(50);
        assert!(few.no_worse && !few.changes.is_empty(), "{}", few.why);
        assert!(few.changes.len() * 3 < many.changes.len());
    }
}
