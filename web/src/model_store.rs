//! Models in memory: each is downloaded once, and from then on predictions send
//! no request.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use diode_core::api::ModelSummary;
use diode_core::ids::HardwareSlug;
use diode_model::Model;
use leptos::prelude::*;
use leptos::task::spawn_local;

use crate::api::{self, Failure};
use crate::remote::Load;

thread_local! {
    static MODELS: RefCell<HashMap<String, Arc<Model>>> = RefCell::default();
}

/// The model of a hardware that was trained on the most timings, the newest of equals.
pub(crate) fn best_for<'a>(models: &'a [ModelSummary], hardware: &HardwareSlug) -> Option<&'a ModelSummary> {
    models
        .iter()
        .filter(|model| model.hardware == *hardware)
        .max_by(|a, b| (a.training_timings, &a.created_at).cmp(&(b.training_timings, &b.created_at)))
}

/// Follows a model's id; nothing is fetched while it is `None`.
pub(crate) fn model(id: impl Fn() -> Option<String> + Send + Sync + 'static) -> RwSignal<Load<Model>> {
    let state = RwSignal::new(Load::Waiting);
    let wanted = Memo::new(move |_| id());
    Effect::new(move |_| {
        let Some(id) = wanted.get() else {
            return state.set(Load::Waiting);
        };
        if let Some(model) = MODELS.with_borrow(|models| models.get(&id).cloned()) {
            return state.set(Load::Ready(model));
        }
        state.set(Load::Waiting);
        spawn_local(async move {
            let loaded = load(&id).await;
            // The page may be gone by now, or want another model.
            if wanted.try_get_untracked() != Some(Some(id)) {
                return;
            }
            state.set(match loaded {
                Ok(model) => Load::Ready(model),
                Err(failure) => Load::Failed(failure),
            });
        });
    });
    state
}

async fn load(id: &str) -> Result<Arc<Model>, Failure> {
    let bytes = api::get_bytes(&format!("/models/{id}/download")).await?;
    let model = Model::from_bytes(&bytes).map_err(|error| Failure::Unreadable(error.to_string()))?;
    let model = Arc::new(model);
    MODELS.with_borrow_mut(|models| models.insert(id.to_owned(), Arc::clone(&model)));
    Ok(model)
}
