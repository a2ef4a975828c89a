//! Further parts of Predict, which the reader can open: how the time depends on a size, and the predictions of
//! other models. They are in the second piece of the dashboard.

mod along;
mod models;

use std::sync::Arc;

use diode_api::ModelSummary;
use diode_core::Epilogue;
use diode_model::Model;
use js_sys::Reflect;
use leptos::prelude::*;
use leptos::reactive::computed::ScopedFuture;
use leptos::task::spawn_local;

use self::along::Along;
use self::models::OtherModels;
use super::fields::Fields;
use crate::components::Skeleton;
use crate::second_piece;

/// The problem and the model that the further parts are about.
#[derive(Clone)]
pub(crate) struct About {
    pub(super) fields: Fields,
    pub(super) summary: ModelSummary,
    pub(super) model: Arc<Model>,
    /// All models of the server.
    pub(super) models: Arc<Vec<ModelSummary>>,
    /// Whether the reader has opened the parts. While they are closed, nothing is predicted for them.
    pub(super) is_open: RwSignal<bool>,
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Closed,
    OnItsWay,
    There,
    NotFetched,
}

/// The further parts, which are fetched when the reader opens them.
#[component]
pub(super) fn Further(about: About) -> impl IntoView {
    let is_open = about.is_open;
    let stage = RwSignal::new(Stage::Closed);
    let content = StoredValue::new_local(None::<AnyView>);
    // The content is owned by this component and lasts as long as it. If the effect owned the content, the
    // content would end when the effect runs again.
    let owner = Owner::current().map(|owner| owner.downgrade());
    let fetch = move || {
        let Some(owner) = owner.as_ref().and_then(WeakOwner::upgrade) else { return };
        stage.set(Stage::OnItsWay);
        let fetched = owner.with(|| ScopedFuture::new_untracked(second_piece::further(about.clone())));
        spawn_local(async move {
            let next = match fetched.await {
                Ok(view) => {
                    content.try_set_value(Some(view));
                    Stage::There
                }
                Err(second_piece::NotFetched) => Stage::NotFetched,
            };
            // The page may be gone by now.
            stage.try_set(next);
        });
    };
    Effect::new(move |_| {
        if is_open.get() && matches!(stage.get_untracked(), Stage::Closed | Stage::NotFetched) {
            fetch();
        }
    });
    let shown = move || match stage.get() {
        Stage::Closed => None,
        Stage::OnItsWay => Some(view! { <Skeleton height="24rem" /> }.into_any()),
        Stage::There => content.try_update_value(Option::take).flatten(),
        Stage::NotFetched => {
            let sentence = "The server could not be reached. Close this and open it again for another try.";
            Some(view! { <p class="error-text" role="alert">{sentence}</p> }.into_any())
        }
    };
    let open = is_open.get_untracked();
    // Browsers send this event also for an element that is open from the start.
    let toggle = move |event: leptos::ev::Event| {
        let open = event.target().and_then(|target| Reflect::get(&target, &"open".into()).ok());
        if let Some(open) = open.and_then(|open| open.as_bool()) {
            is_open.set(open);
        }
    };
    view! {
        <details class="card" data-testid="further" open=open on:toggle=toggle>
            <summary>"How the time follows a size, and what other models predict"</summary>
            {shown}
        </details>
    }
}

pub(crate) fn further_view(about: About) -> AnyView {
    let About { fields, summary, model, models, is_open } = about;
    let is_followed = move || fields.epilogue() != Ok(Epilogue::None);
    view! {
        <div class="section further">
            <Along fields model is_open />
            <p class="hint" class:hidden=move || !is_followed()>"The times of the models below are of the multiplication alone."</p>
            <OtherModels fields summary models is_open />
        </div>
    }
    .into_any()
}
