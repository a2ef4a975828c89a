//! Models in memory. Each model is downloaded once; from then on, predictions need no request.

use diode_core::ids::{ModelId, ProblemId};
use diode_model::Model;

use crate::api::Failure;
use crate::remote::{Remote, remote_file};

/// Follows a model's id. Nothing is fetched while the id is `None`.
pub(crate) fn model(id: impl Fn() -> Option<String> + Send + Sync + 'static) -> Remote<Model> {
    file(move || id().map(|id| format!("/models/{id}/download")))
}

/// Follows the ids of a model and of a problem. Fetches the network of the model's cross-validation that was
/// trained without the problem.
pub(crate) fn unseen_model(
    ids: impl Fn() -> Option<(ModelId, ProblemId)> + Send + Sync + 'static,
) -> Remote<Model> {
    file(move || ids().map(|(model, problem)| format!("/models/{model}/unseen/{problem}")))
}

fn file(path: impl Fn() -> Option<String> + Send + Sync + 'static) -> Remote<Model> {
    remote_file(path, |bytes| {
        Model::from_bytes(bytes).map_err(|error| Failure::Unreadable(error.to_string()))
    })
}
