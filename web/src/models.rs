//! Models in memory. Each model is downloaded once; from then on, predictions need no request.

use std::ops::Deref;
use std::sync::Arc;

use diode_core::ids::{ModelId, ProblemId};
use diode_model::Model;

use crate::api::Failure;
use crate::remote::{Remote, remote_file};

/// A model, and the file that it was read from. A worker gets the file.
pub(crate) struct Downloaded {
    pub(crate) model: Arc<Model>,
    pub(crate) file: Vec<u8>,
}

impl Deref for Downloaded {
    type Target = Model;

    fn deref(&self) -> &Model {
        &self.model
    }
}

/// Follows a model's id. Nothing is fetched while the id is `None`.
pub(crate) fn model(id: impl Fn() -> Option<String> + Send + Sync + 'static) -> Remote<Downloaded> {
    file(move || id().map(|id| format!("/models/{id}/download")))
}

/// Follows the ids of a model and of a problem. Fetches the network of the model's cross-validation that was
/// trained without the problem.
pub(crate) fn unseen_model(
    ids: impl Fn() -> Option<(ModelId, ProblemId)> + Send + Sync + 'static,
) -> Remote<Downloaded> {
    file(move || ids().map(|(model, problem)| format!("/models/{model}/unseen/{problem}")))
}

fn file(path: impl Fn() -> Option<String> + Send + Sync + 'static) -> Remote<Downloaded> {
    remote_file(path, |bytes| {
        let model = Model::from_bytes(bytes).map_err(|error| Failure::Unreadable(error.to_string()))?;
        Ok(Downloaded { model: Arc::new(model), file: bytes.to_vec() })
    })
}
