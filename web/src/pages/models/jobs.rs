//! The server's jobs, current and past.

use std::sync::Arc;

use diode_api::{Job, JobEvent, JobKind, JobState, ModelType};
use leptos::prelude::*;
use leptos::task::spawn_local;
use wasm_bindgen::JsCast as _;
use wasm_bindgen::closure::Closure;
use web_sys::{Event, EventSource, MessageEvent};

use crate::components::{Loaded, empty, head, num, table};
use crate::remote::remote;
use crate::{api, cache, format};

/// The number of newest jobs that are shown.
const MOST: usize = 20;

#[component]
pub(super) fn Jobs() -> impl IntoView {
    let jobs = remote::<Vec<Job>>(|| Some("/jobs".to_owned()));
    let again = Callback::new(move |()| jobs.retry());
    view! {
        <section class="section" id="jobs" aria-labelledby="jobs-title" data-testid="jobs">
            <h2 id="jobs-title">"Jobs"</h2>
            <p class="hint">"Trainings, judgements of contributed models and snapshots, the newest first."</p>
            <Loaded remote=jobs height="12rem" children=move |jobs| move || list(&jobs, again) />
        </section>
    }
}

fn list(jobs: &Arc<Vec<Job>>, again: Callback<()>) -> AnyView {
    if jobs.is_empty() {
        return empty("There was none yet", "The form above starts the first one.");
    }
    let (open, ended): (Vec<_>, Vec<_>) = jobs.iter().take(MOST).partition(|job| !job.state.is_final());
    let running = open.into_iter().map(|job| {
        let id = job.id.to_string();
        view! {
            <div class="card">
                <p><strong>{named(job)}</strong> {format!(" · {}", asked(job))}</p>
                <Progress id ended=again />
            </div>
        }
    });
    let table = (!ended.is_empty()).then(|| ended_jobs(ended));
    view! {
        {running.collect_view()}
        {table}
    }
    .into_any()
}

fn ended_jobs(ended: Vec<&Job>) -> impl IntoView + use<> {
    view! {
        {table([
            head("Job"), head("State"), head("What came of it"), num("Asked for"),
        ]).rows(ended.into_iter().map(row).collect_view())}
    }
}

/// The name of a job: `training, nvidia-h200`.
fn named(job: &Job) -> String {
    let kind = match (job.request.kind, job.request.model_type) {
        (JobKind::Train, ModelType::Ranking) => "training".to_owned(),
        (JobKind::Train, other) => format!("training of {other}"),
        (JobKind::Snapshot, _) => "snapshot".to_owned(),
        (JobKind::Evaluate, _) => "judging of a contributed model".to_owned(),
    };
    format!("{kind}, {}", job.request.hardware)
}

fn asked(job: &Job) -> String {
    let by = if job.automatic { "by the server itself" } else { "asked for" };
    format!("{by} {}", format::minute(&job.created_at))
}

fn row(job: &Job) -> impl IntoView + use<> {
    let made = match (&job.model, &job.snapshot, &job.error) {
        (Some(model), ..) => {
            view! { <a href=format!("/models/{model}")><code>{model.to_string()}</code></a> }.into_any()
        }
        (_, Some(name), _) => {
            view! { <a href=format!("/datasets/{}", job.request.hardware)>{name.to_string()}</a> }.into_any()
        }
        (.., Some(error)) => error.clone().into_any(),
        _ => "–".into_any(),
    };
    view! {
        <tr>
            <td>{named(job)}</td>
            <td>{job.state.to_string()}</td>
            <td>{made}</td>
            <td class="num">{format::minute(&job.created_at)}</td>
        </tr>
    }
}

/// An open stream of events. It is closed when the reader leaves the page.
struct Stream {
    source: EventSource,
    _on_message: Closure<dyn FnMut(MessageEvent)>,
    _on_error: Closure<dyn FnMut(Event)>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.source.close();
    }
}

/// What the page knows about the job.
#[derive(Clone, Copy)]
struct JobSignals {
    event: RwSignal<Option<JobEvent>>,
    /// The job itself, once it has ended.
    outcome: RwSignal<Option<Job>>,
    error: RwSignal<Option<String>>,
}

/// Shows the progress of a job and its result. Calls `ended` once the job has ended.
#[component]
pub(super) fn Progress(id: String, #[prop(into)] ended: Callback<()>) -> impl IntoView {
    let progress =
        JobSignals { event: RwSignal::new(None), outcome: RwSignal::new(None), error: RwSignal::new(None) };
    let stream = StoredValue::new_local(open(id.clone(), progress));
    on_cleanup(move || {
        stream.try_update_value(Option::take);
    });
    Effect::new(move |_| {
        if progress.outcome.with(Option::is_some) {
            ended.run(());
        }
    });
    let share = move || progress.event.with(|event| event.as_ref().map_or(0.0, |event| event.progress));
    let first = StoredValue::new(None::<(f64, f64)>);
    let left = move || remaining(first, share());
    let (cancelling, not_cancelled) = (RwSignal::new(false), RwSignal::new(None::<String>));
    let cancel = {
        let path = format!("/jobs/{id}");
        move |_| {
            let path = path.clone();
            cancelling.set(true);
            spawn_local(async move {
                // The answer is not shown unless it is an error: an event will tell that the job was cancelled.
                let answer = api::delete::<Job>(&path).await;
                cancelling.try_set(false);
                not_cancelled.try_set(answer.err().map(|failure| failure.to_string()));
            });
        }
    };
    let width = move || format!("width: {:.1}%", share() * 100.0);
    let message = move || match progress.event.get() {
        Some(event) if !event.message.is_empty() => event.message,
        Some(event) => event.state.to_string(),
        None => "waiting for the worker".to_owned(),
    };
    let running = move || progress.outcome.with(Option::is_none) && progress.error.with(Option::is_none);
    view! {
        <div class="section" data-testid="job" data-job=id>
            {move || running().then(|| view! {
                <div class="progress" role="progressbar" aria-label="How far the job is" aria-valuemin="0" aria-valuemax="100"
                    aria-valuenow=move || (share() * 100.0).round()><i style=width></i></div>
                <div class="row">
                    <p class="hint grow">{message} {left}</p>
                    <button type="button" class="button small" prop:disabled=move || cancelling.get() on:click=cancel.clone()>
                        "Cancel"
                    </button>
                </div>
                {move || not_cancelled.get().map(|message| view! { <p class="error-text" role="alert">{message}</p> })}
            })}
            {move || progress.outcome.get().map(outcome)}
            {move || progress.error.get().map(|message| view! { <p class="error-text" role="alert">{message}</p> })}
        </div>
    }
}

/// The remaining time at the speed so far: ` · about 3 min left`. `first` has the time and the progress when the page
/// first saw the job.
fn remaining(first: StoredValue<Option<(f64, f64)>>, share: f64) -> String {
    let now = js_sys::Date::now();
    let (began, had) = first.get_value().unwrap_or((now, share));
    if first.get_value().is_none() && share > 0.0 {
        first.set_value(Some((now, share)));
    }
    // After so little progress, an estimate would be useless.
    if share - had < 0.02 {
        return String::new();
    }
    let seconds = (now - began) / 1e3 * (1.0 - share) / (share - had);
    let left = if seconds < 90.0 { format!("{seconds:.0} s") } else { format!("{:.0} min", seconds / 60.0) };
    format!(" · about {left} left")
}

fn outcome(job: Job) -> impl IntoView {
    if job.state == JobState::Cancelled {
        return view! { <p>"Cancelled."</p> }.into_any();
    }
    match (job.model, job.error) {
        (Some(model), _) => view! {
            <p>
                <span class="good-text">"Done. "</span>
                <a href=format!("/models/{model}")>"Open the new model"</a>
            </p>
        }
        .into_any(),
        (None, error) => {
            let error = error.unwrap_or_else(|| "it left no model and no reason".to_owned());
            view! { <p class="error-text" role="alert">{format!("Training failed: {error}")}</p> }.into_any()
        }
    }
}

/// Follows the events of a job. `None` if the browser refuses; `progress` then shows an error.
fn open(id: String, progress: JobSignals) -> Option<Stream> {
    let source = match EventSource::new(&api::url(&format!("/jobs/{id}/events"))) {
        Ok(source) => source,
        Err(_) => {
            progress
                .error
                .set(Some("this browser cannot follow the job; reload to see how it went".to_owned()));
            return None;
        }
    };
    let on_message = {
        let (id, source) = (id.clone(), source.clone());
        Closure::<dyn FnMut(MessageEvent)>::new(move |message: MessageEvent| {
            let text = message.data().as_string().unwrap_or_default();
            match serde_json::from_str::<JobEvent>(&text) {
                Ok(event) => {
                    if event.state.is_final() {
                        source.close();
                        spawn_local(finish(id.clone(), progress));
                    }
                    progress.event.try_set(Some(event));
                }
                Err(error) => {
                    source.close();
                    progress
                        .error
                        .try_set(Some(format!("the server sent an event that cannot be read: {error}")));
                }
            }
        })
    };
    // After a broken connection, the browser reconnects by itself. If the server refused the connection, the browser
    // closes the stream, and `finish` finds out why.
    let on_error = {
        let source = source.clone();
        Closure::<dyn FnMut(Event)>::new(move |_: Event| {
            if source.ready_state() == EventSource::CLOSED {
                spawn_local(finish(id.clone(), progress));
            }
        })
    };
    source.set_onmessage(Some(on_message.as_ref().unchecked_ref()));
    source.set_onerror(Some(on_error.as_ref().unchecked_ref()));
    Some(Stream { source, _on_message: on_message, _on_error: on_error })
}

/// Fetches the job, once its events have ended.
async fn finish(id: String, progress: JobSignals) {
    let answer = api::get::<Job>(&format!("/jobs/{id}")).await;
    cache::clear();
    match answer {
        Ok(job) if job.state.is_final() => {
            progress.outcome.try_set(Some(job));
        }
        Ok(job) => {
            let state = job.state;
            progress
                .error
                .try_set(Some(format!("the job was {state} when its events ended; reload to follow it")));
        }
        Err(failure) => {
            progress.error.try_set(Some(failure.to_string()));
        }
    }
}
