//! Models in memory: each is downloaded once, and from then on predictions send
//! no request.

use diode_core::api::{ModelState, ModelSummary};
use diode_core::ids::HardwareSlug;
use diode_model::Model;

use crate::api::Failure;
use crate::remote::{Remote, remote_file};

/// The published model of a hardware.
pub(crate) fn best_for<'a>(models: &'a [ModelSummary], hardware: &HardwareSlug) -> Option<&'a ModelSummary> {
    models.iter().find(|model| model.hardware == *hardware && model.state == ModelState::Published)
}

/// Follows a model's id; nothing is fetched while it is `None`.
pub(crate) fn model(id: impl Fn() -> Option<String> + Send + Sync + 'static) -> Remote<Model> {
    remote_file(
        move || id().map(|id| format!("/models/{id}/download")),
        |bytes| Model::from_bytes(bytes).map_err(|error| Failure::Unreadable(error.to_string())),
    )
}
