//! Type a shape and the answer is there: the model is fetched once, the ranking
//! happens in the browser, the state is in the address.

mod answer;
mod fields;
mod form;
mod sureness;

use std::sync::Arc;

use diode_core::api::ModelSummary;
use leptos::prelude::*;

pub(crate) use self::fields::{DTYPES, size};
pub(crate) use self::form::lookup_fields;

use self::answer::answer;
use self::fields::Fields;
use self::form::form;
use crate::components::{empty, failure, loaded, skeleton, title};
use crate::model_store;
use crate::pages::models::no_models;
use crate::remote::{Load, remote};

pub(crate) fn predict() -> impl IntoView {
    let fields = Fields::from_address();
    title(move || {
        format!("Predict {}", fields.problem().map_or_else(|_| "a shape".to_owned(), |p| p.dims()))
    });
    let models = remote::<Vec<ModelSummary>>(|| Some("/models".to_owned()));
    view! {
        <main class="page">
            <div>
                <h1>"Predict"</h1>
                <p class="lede">"The fastest configs for a shape, ranked here in your browser as you type."</p>
            </div>
            {loaded(models, "34rem", move |models| content(fields, models))}
        </main>
    }
}

/// The model that the address asks for: by id, or the best for a hardware, or
/// the best there is.
fn chosen(fields: Fields, models: &[ModelSummary]) -> Result<ModelSummary, String> {
    let (id, hardware) = (fields.model.get(), fields.hardware.get());
    if !id.is_empty() {
        let found = models.iter().find(|model| model.id.as_str() == id);
        return found.cloned().ok_or_else(|| format!("There is no model {id}."));
    }
    let slug = match hardware.as_str() {
        "" => models.iter().max_by_key(|model| model.training_timings).map(|model| model.hardware.clone()),
        slug => Some(slug.parse().map_err(|error| format!("{error}."))?),
    };
    let best = slug.and_then(|slug| model_store::best_for(models, &slug));
    best.cloned().ok_or_else(|| format!("There is no model for {hardware} yet."))
}

fn content(fields: Fields, models: Arc<Vec<ModelSummary>>) -> impl IntoView {
    if models.is_empty() {
        return no_models(remote(|| Some("/hardware".to_owned()))).into_any();
    }
    let choice = {
        let models = Arc::clone(&models);
        Memo::new(move |_| chosen(fields, &models))
    };
    let model = model_store::model(move || choice.get().ok().map(|model| model.id.to_string()));
    let result = move || match (choice.get(), model.get()) {
        (Err(message), _) => {
            let advice = view! { "Choose another model, or " <a href="/models#train">"train one"</a> "." };
            empty(message, advice).into_any()
        }
        (_, Load::Waiting) => skeleton("34rem").into_any(),
        (_, Load::Failed(reason)) => {
            failure(&reason, move || window().location().reload().unwrap_or_default())
        }
        (Ok(summary), Load::Ready(model)) => answer(fields, summary, model).into_any(),
    };
    view! {
        <div class="split form-first">
            {form(fields, models, choice)}
            <div class="section">{result}</div>
        </div>
    }
    .into_any()
}
