//! The networks that jobs train: Diode's own, and torch-diode's to compare with.

use std::ops::ControlFlow;

use diode_api::{JobRequest, ModelType};
use diode_compat::{Architecture, PredecessorModel};
use diode_compat::{PredecessorOptions, train_predecessor};
use diode_core::Problem;
use diode_model::{Model, ModelError, Predictor};
use diode_train::{
    Checkpoint, FirstPicks, Fitted, FoldModel, Plan, Progress, TrainError, TrainOptions, TrainingSet, fit,
};

use crate::worker::summary::About;

/// The number of folds. For each fold, a model is trained without it and judged on it, so on problems that the
/// model has not seen.
const FOLDS: usize = 4;

pub(super) enum Network {
    Ranking {
        model: Box<Model>,
        /// See [`diode_train::Fitted`].
        unseen: Vec<(Problem, f64)>,
        folds: Vec<FoldModel>,
    },
    Predecessor(Box<PredecessorModel>),
}

impl Network {
    pub(super) fn learn(
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
        let plan = Plan { options, folds, created_at, keep_when_stopped: false };
        let Fitted { model, unseen, folds, .. } = fit(set, &plan, &Checkpoint::new(set, &plan), observe)?;
        Ok(Self::Ranking { model: Box::new(model), unseen, folds })
    }

    pub(super) fn predictor(&self) -> &dyn Predictor {
        match self {
            Self::Ranking { model, .. } => model.as_ref(),
            Self::Predecessor(model) => model.as_ref(),
        }
    }

    /// How near the best the first picks are for problems that the model has not seen: problems of the folds, and
    /// kept problems. Empty for torch-diode's networks, because nothing is done with their shares.
    pub(super) fn shares_of_best(self, kept: &TrainingSet, picks: &FirstPicks) -> Vec<(Problem, f64)> {
        let Self::Ranking { mut unseen, .. } = self else { return Vec::new() };
        unseen.extend(kept.iter().map(|kept| kept.problem.clone()).zip(picks.shares()));
        unseen
    }

    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, ModelError> {
        match self {
            Self::Ranking { model, .. } => model.to_bytes(),
            Self::Predecessor(model) => model.to_bytes(),
        }
    }

    /// The file with the models of the cross-validation, if there are any.
    pub(super) fn unseen_models(&self) -> Result<Option<Vec<u8>>, ModelError> {
        let Self::Ranking { folds, .. } = self else { return Ok(None) };
        FoldModel::file_of_all(folds)
    }

    /// What the model's file states. Fails if the file states nothing, like torch-diode's own files.
    pub(super) fn about(&self) -> Result<About<'_>, String> {
        match self {
            Self::Ranking { model, .. } => Ok(model.metadata().into()),
            Self::Predecessor(model) => {
                let metadata = model.metadata().ok_or("the trained model says nothing of itself")?;
                Ok(metadata.into())
            }
        }
    }
}
