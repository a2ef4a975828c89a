//! The models of a cross-validation. Each is for the problems that it was not trained on.

use std::collections::BTreeSet;

use diode_core::hash_of_size;
use diode_model::{Model, ModelError, UnseenModels};

use crate::folds::Folds;
use crate::judgement::{Outcome, corrections};
use crate::{TrainError, TrainingSet};

/// A model that was trained and corrected without the problems of a fold.
#[derive(Debug, Clone)]
pub struct FoldModel {
    pub model: Model,
    /// The sizes of the fold's problems, as [`hash_of_size`].
    pub unseen_sizes: BTreeSet<u64>,
}

impl FoldModel {
    /// The file of several fold models, which [`UnseenModels`] reads; `None` if there are no models.
    pub fn file_of_all(folds: &[Self]) -> Result<Option<Vec<u8>>, ModelError> {
        let mut unseen = UnseenModels::default();
        for Self { model, unseen_sizes } in folds {
            unseen.add(model.to_bytes()?, unseen_sizes.iter().copied())?;
        }
        (!folds.is_empty()).then(|| unseen.to_bytes()).transpose()
    }
}

/// A model that was not trained on a fold, with its network for the library, and its picks for the fold's
/// problems.
pub(crate) struct JudgedFold {
    pub(crate) fold: usize,
    pub(crate) model: Model,
    pub(crate) outcomes: Vec<Outcome>,
}

/// Corrects the model of each fold by the picks of the other folds' models. The fold's own problems must not
/// count.
pub(crate) fn fold_models(
    judged: &[JudgedFold],
    set: &TrainingSet,
    folds: &Folds,
) -> Result<Vec<FoldModel>, TrainError> {
    let of_fold = |JudgedFold { fold, model, .. }: &JudgedFold| {
        let others = judged.iter().filter(|other| other.fold != *fold);
        let outcomes: Vec<&Outcome> = others.flat_map(|other| &other.outcomes).collect();
        let (pick_bias, library_handicap) = corrections(&outcomes);
        let model = model.clone().with_corrections(pick_bias, library_handicap)?;
        let unseen = set.iter().chain(set.others()).filter(|problem| folds.of(problem) == Some(*fold));
        let unseen_sizes = unseen.map(|problem| hash_of_size(&problem.problem)).collect();
        Ok(FoldModel { model, unseen_sizes })
    };
    judged.iter().map(of_fold).collect()
}
