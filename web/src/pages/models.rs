//! Models: the list, the page of one model, and the form that trains another.

mod curves;
mod jobs;
mod judged;
mod model;

use std::sync::Arc;

use diode_api::{
    Contribution, HardwareSummary, Job, JobKind, JobRequest, ModelSource, ModelState, ModelSummary, ModelType,
};
use diode_core::Heuristic;
use diode_core::ids::HardwareSlug;
use leptos::prelude::*;
use leptos::task::spawn_local;

use crate::components::{Choice, Loaded, Stats, empty, page_head, select, tag_row};
use crate::pages::models::jobs::{Jobs, Progress};
use crate::pages::models::model::short;
use crate::query::{History, parameter, use_set_parameters};
use crate::remote::{Remote, remote};
use crate::{api, format};

pub(crate) use crate::pages::models::model::ModelPage;

#[component]
pub(crate) fn ModelsPage() -> impl IntoView {
    let models = remote::<Vec<ModelSummary>>(|| Some("/models".to_owned()));
    let hardware = remote::<Vec<HardwareSummary>>(|| Some("/hardware".to_owned()));
    let wanted = parameter("hardware");
    let cards = move |models: &[ModelSummary]| {
        let shown = wanted.with(|wanted| {
            let of_wanted = |model: &&ModelSummary| wanted.is_empty() || model.hardware.as_str() == wanted;
            models.iter().filter(of_wanted).map(card).collect::<Vec<_>>()
        });
        if shown.is_empty() {
            view! { <NoModels hardware /> }.into_any()
        } else {
            view! { <div class="cards">{shown}</div> }.into_any()
        }
    };
    view! {
        <main class="page">
            {page_head("/models")}
            {move || (!wanted.get().is_empty()).then(|| view! {
                <div class="row">
                    <span class="chip" aria-current="true">{wanted.get()}</span>
                    <a href="/models">"Show all hardware"</a>
                </div>
            })}
            <Loaded remote=models height="20rem" children=move |models| move || cards(&models) />
            <Loaded remote=hardware height="9rem" children=move |hardware| view! { <Train hardware models /> } />
            <Jobs />
        </main>
    }
}

/// Whether the model is published, its origin, and its ops: `published · shipped with Diode · mm`.
fn tags(model: &ModelSummary) -> Vec<String> {
    let source = match (model.source, &model.contribution) {
        (ModelSource::Shipped, _) => "shipped with Diode".to_owned(),
        (ModelSource::Trained, _) => "trained here".to_owned(),
        (ModelSource::Contributed, Some(Contribution { by: Some(by), .. })) => format!("contributed by {by}"),
        (ModelSource::Contributed, _) => "contributed".to_owned(),
    };
    let state = match model.state {
        ModelState::Published if model.pinned => "published, pinned",
        ModelState::Published => "published",
        ModelState::Earlier => "published earlier",
        ModelState::Unpublished => "not published",
    };
    let model_type = (model.model_type != ModelType::Ranking).then(|| model.model_type.to_string());
    let withdrawn = (model.withdrawn_uploads > 0)
        .then(|| format!("{} in it no longer count", format::counted(model.withdrawn_uploads, "upload")));
    let ops = model.ops.iter().map(ToString::to_string);
    let dtypes = model.dtypes.iter().map(ToString::to_string);
    [state.to_owned(), source]
        .into_iter()
        .chain(model_type)
        .chain(withdrawn)
        .chain(ops)
        .chain(dtypes)
        .collect()
}

pub(crate) fn card(model: &ModelSummary) -> impl IntoView + use<> {
    let size = format!(
        "{} · {} parameters · trained {} on {}",
        format::bytes(model.bytes),
        format::count(model.parameters),
        format::day(&model.created_at),
        format::counted(model.training_problems, "problem"),
    );
    let numbers =
        model.evaluation.as_ref().map(|evaluation| view! { <Stats inner=true stats=short(evaluation) /> });
    view! {
        <div class="card linked">
            <div class="card-head">
                <h2><a class="card-link" href=format!("/models/{}", model.id)>{model.hardware.to_string()}</a></h2>
                <code class="hint">{model.id.to_string()}</code>
            </div>
            {tag_row(tags(model))}
            {numbers}
            <p class="hint">{size}</p>
        </div>
    }
}

/// A link to training if there is data to train on, else a link to contributing.
#[component]
pub(crate) fn NoModels(hardware: Remote<Vec<HardwareSummary>>) -> impl IntoView {
    let advice = |all: &[HardwareSummary]| {
        if all.iter().any(|summary| summary.timings > 0) {
            empty(
                "No models here yet",
                view! { <a href="/models#train">"Train one"</a> " on the data that is here: it takes a minute or two." },
            )
        } else {
            empty(
                "No data yet",
                view! { <a href="/contribute">"Contribute measurements"</a> ", and models can be trained on them." },
            )
        }
    };
    view! { <Loaded remote=hardware height="5rem" children=move |all| advice(&all) /> }
}

/// The form, if any hardware has data to train on.
#[component]
fn Train(
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
                {select("Hardware", choices, chosen)}
                {select("Network", networks(), model_type)}
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
