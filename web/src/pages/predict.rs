//! Predictions for a shape while the reader types it. The model is fetched once, the browser ranks, and the
//! address has the state.

mod answer;
mod fields;
mod form;
mod further;
mod shape_words;

use std::sync::Arc;

use diode_api::ModelSummary;
use leptos::prelude::*;

pub(crate) use self::fields::{DTYPES, NARROW, SHAPE, flags, has_a_form, problem_of, shape_of};
pub(crate) use self::form::{Parameters, SizeField, epilogues, float32, model_choice};
pub(crate) use self::further::{About, further_view};
pub(crate) use self::shape_words::{Defaults, ShapeWords, dtype, plain, size};

use self::answer::Answer;
use self::fields::Fields;
use self::form::Form;
use self::further::Further;
use crate::components::{Deferred, FailedLoad, Loaded, NearestProblems, Skeleton, empty, use_title};
use crate::pages::models::NoModels;
use crate::remote::{Load, remote, remote_model};

/// Stands below the nearest problems if the shape itself was measured.
const MEASURED_NOTE: &str = "This shape is measured. Its page predicts by a network that has not learnt it, where there \
    is one, so the times predicted there may differ from those here.";

#[component]
pub(crate) fn PredictPage() -> impl IntoView {
    let fields = Fields::from_address();
    use_title(move || {
        format!("Predict {}", fields.problem().map_or_else(|_| "a shape".to_owned(), |p| p.dims()))
    });
    let models = remote::<Vec<ModelSummary>>(|| Some("/models?model_type=ranking".to_owned()));
    view! {
        <main class="page">
            <div class="page-head">
                <div>
                    <h1>"Predict"</h1>
                    <p class="lede">"The fastest configs for a shape, ranked here in your browser as you type."</p>
                </div>
                <a class="button" href="/predict/list">"Predict a list"</a>
            </div>
            <Loaded remote=models height="34rem" children=move |models| view! { <FormAndAnswer fields models /> } />
        </main>
    }
}

/// The model that the address names by id, or the best model of the hardware that it names, or the best
/// model of all.
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
    let best = slug.and_then(|slug| ModelSummary::best_for(models, &slug));
    best.cloned().ok_or_else(|| format!("There is no model for {hardware} yet."))
}

#[component]
fn FormAndAnswer(fields: Fields, models: Arc<Vec<ModelSummary>>) -> impl IntoView {
    if models.is_empty() {
        return view! { <NoModels hardware=remote(|| Some("/hardware".to_owned())) /> }.into_any();
    }
    let choice = {
        let models = Arc::clone(&models);
        Memo::new(move |_| chosen(fields, &models))
    };
    let model = remote_model(move || choice.get().ok().map(|model| model.id.to_string()));
    let result = move || match (choice.get(), model.get()) {
        (Err(message), _) => {
            empty(message, view! { "Choose another model, or " <a href="/models#train">"train one"</a> "." })
        }
        // A placeholder lower than the answer would show the parts below it, and the answer would then push
        // them down.
        (_, Load::Waiting) => view! { <Skeleton height="48rem" /> }.into_any(),
        (_, Load::Failed(reason)) => view! { <FailedLoad reason retry=move || model.retry() /> }.into_any(),
        (Ok(summary), Load::Ready(file)) => {
            view! { <Answer fields summary model=Arc::clone(&file.model) /> }.into_any()
        }
    };
    let all = Arc::clone(&models);
    let is_open = RwSignal::new(false);
    let further = move || {
        let (summary, model) = (choice.get().ok()?, Arc::clone(&model.value()?.model));
        let hardware = model.metadata().hardware.clone();
        let problem = Signal::derive(move || fields.problem().ok());
        let about = About { fields, summary, model, models: Arc::clone(&all), is_open };
        Some(view! {
            <Further about />
            <NearestProblems hardware problem measured_note=MEASURED_NOTE />
        })
    };
    view! {
        <div class="split form-first">
            <Form fields models choice is_there=Signal::derive(move || model.value().is_some()) />
            <div class="section">
                <Deferred height="48rem">{result}</Deferred>
                <Deferred>{further.clone()}</Deferred>
            </div>
        </div>
    }
    .into_any()
}
