//! The form by which the server is asked to train a model.

use std::sync::Arc;

use diode_api::{HardwareSummary, Job, JobKind, JobRequest, ModelSummary, ModelType};
use diode_core::Heuristic;
use diode_core::ids::HardwareSlug;
use leptos::prelude::*;
use leptos::task::spawn_local;

use super::progress::Progress;
use crate::api;
use crate::components::{Choice, Select};
use crate::query::{History, parameter, use_set_parameters};
use crate::remote::Remote;

/// The form, if any hardware has data to train on.
#[component]
pub(super) fn Train(
    hardware: Arc<Vec<HardwareSummary>>,
    /// The list of models, which is fetched again once a job has ended.
    models: Remote<Vec<ModelSummary>>,
) -> impl IntoView {
    let wanted = parameter("hardware").get_untracked();
    let measured = hardware.iter().filter(|summary| summary.timings > 0);
    let choices: Vec<Choice> =
        measured.map(|s| (s.hardware.slug.to_string(), s.hardware.name.clone())).collect();
    let initial =
        choices.iter().find(|(slug, _)| *slug == wanted).or(choices.first()).map(|(slug, _)| slug.clone());
    initial.map(|initial| view! { <TrainForm choices initial models /> })
}

/// The form, and the job that it has started.
#[component]
fn TrainForm(choices: Vec<Choice>, initial: String, models: Remote<Vec<ModelSummary>>) -> impl IntoView {
    let chosen = RwSignal::new(initial);
    let model_type = RwSignal::new(ModelType::default().to_string());
    let (asking, error) = (RwSignal::new(false), RwSignal::new(None::<String>));
    let set = use_set_parameters();
    // The job is in the address only while it runs. So a reload shows a running job again, but not one that
    // has ended.
    let job = RwSignal::new(parameter("job").get_untracked());
    let ended = {
        let set = set.clone();
        move || {
            set(&[("job", String::new())], History::Replace);
            models.retry();
        }
    };
    let start = move |_| {
        let Ok(slug) = chosen.get_untracked().parse::<HardwareSlug>() else { return };
        let request = JobRequest {
            model_type: model_type.with_untracked(|name| name.parse()).unwrap_or_default(),
            ..JobRequest::new(JobKind::Train, Heuristic::Matmul, slug)
        };
        let set = set.clone();
        asking.set(true);
        error.set(None);
        spawn_local(async move {
            let answer = api::post::<_, Job>("/jobs", &request).await;
            // The page may be gone by now. The job runs all the same.
            if asking.try_set(false).is_some() {
                return;
            }
            match answer {
                Ok(started) => {
                    set(&[("job", started.id.to_string())], History::Replace);
                    job.set(started.id.to_string());
                }
                Err(failure) => error.set(Some(failure.to_string())),
            }
        });
    };
    view! {
        <section class="card" id="train">
            <h2>"Train a model"</h2>
            <p class="hint">
                "On everything stored for one kind of hardware. The server also measures how good it is, on problems held "
                "back. Programs take ranking networks; torch-diode's are for comparison."
            </p>
            <div class="row train">
                <Select label="Hardware" choices current=chosen choose=move |slug| chosen.set(slug) />
                <Select label="Network" choices=networks() current=model_type choose=move |name| model_type.set(name) />
                <button type="button" class="button primary" prop:disabled=move || asking.get() on:click=start>
                    "Train"
                </button>
            </div>
            {move || error.get().map(|message| view! { <p class="error-text" role="alert">{message}</p> })}
            {move || Some(job.get()).filter(|id| !id.is_empty()).map(|id| view! { <Progress id ended=ended.clone() /> })}
        </section>
    }
}

fn networks() -> Vec<Choice> {
    let named = |model_type: &ModelType| {
        let name = match model_type {
            ModelType::Ranking => "ranking",
            ModelType::Base => "torch-diode's base",
            ModelType::Deep => "torch-diode's deep",
        };
        (model_type.to_string(), name.to_owned())
    };
    ModelType::ALL.iter().map(named).collect()
}
