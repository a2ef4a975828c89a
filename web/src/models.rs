//! Models in memory: each is downloaded once, and from then on predictions send
//! no request.

use diode_model::Model;

use crate::api::Failure;
use crate::remote::{Remote, remote_file};

/// Follows a model's id; nothing is fetched while it is `None`.
pub(crate) fn model(id: impl Fn() -> Option<String> + Send + Sync + 'static) -> Remote<Model> {
    remote_file(
        move || id().map(|id| format!("/models/{id}/download")),
        |bytes| Model::from_bytes(bytes).map_err(|error| Failure::Unreadable(error.to_string())),
    )
}
