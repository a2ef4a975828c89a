//! Models in memory: each is downloaded once, and from then on predictions send
//! no request.

use diode_core::api::ModelSummary;
use diode_core::ids::HardwareSlug;
use diode_model::Model;

use crate::api::Failure;
use crate::remote::{Remote, remote_file};

/// The model of a hardware that was trained on the most timings, the newest of equals.
pub(crate) fn best_for<'a>(models: &'a [ModelSummary], hardware: &HardwareSlug) -> Option<&'a ModelSummary> {
    models
        .iter()
        .filter(|model| model.hardware == *hardware)
        .max_by(|a, b| (a.training_timings, &a.created_at).cmp(&(b.training_timings, &b.created_at)))
}

/// Follows a model's id; nothing is fetched while it is `None`.
pub(crate) fn model(id: impl Fn() -> Option<String> + Send + Sync + 'static) -> Remote<Model> {
    remote_file(
        move || id().map(|id| format!("/models/{id}/download")),
        |bytes| Model::from_bytes(bytes).map_err(|error| Failure::Unreadable(error.to_string())),
    )
}
