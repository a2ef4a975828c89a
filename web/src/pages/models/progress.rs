//! The progress of a job, from the server's event stream.

use diode_api::{Job, JobEvent, JobState};
use leptos::prelude::*;
use leptos::task::spawn_local;
use wasm_bindgen::JsCast as _;
use wasm_bindgen::closure::Closure;
use web_sys::{Event, EventSource, MessageEvent};

use crate::{api, cache};

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
