//! Asking the server to train a model.

use diode_core::Heuristic;
use diode_core::api::{HardwareSummary, Job, JobKind, JobRequest, ModelSummary};
use diode_core::ids::HardwareSlug;
use leptos::prelude::*;
use leptos::task::spawn_local;

use super::progress::progress;
use crate::api;
use crate::components::select;
use crate::query::{History, parameter, use_set_parameters};
use crate::remote::Remote;

/// The form, if there is anything to train on, and the job that it started.
pub(super) fn train(
    hardware: &[HardwareSummary],
    models: Remote<Vec<ModelSummary>>,
) -> Option<impl IntoView + use<>> {
    let measured: Vec<&HardwareSummary> = hardware.iter().filter(|summary| summary.timings > 0).collect();
    let wanted = parameter("hardware").get_untracked();
    let is_wanted = |summary: &&&HardwareSummary| summary.hardware.slug.as_str() == wanted;
    let initial = measured.iter().find(is_wanted).or(measured.first())?.hardware.slug.to_string();
    let choices = measured.iter().map(|s| (s.hardware.slug.to_string(), s.hardware.name.clone())).collect();
    let chosen = RwSignal::new(initial);
    let (asking, error) = (RwSignal::new(false), RwSignal::new(None::<String>));
    let set = use_set_parameters();
    // In the address only while it runs: a reload then finds it again, and does
    // not tell once more of one that has ended.
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
            kind: JobKind::Train,
            heuristic: Heuristic::Matmul,
            hardware: slug,
            method: None,
            seed: 0,
        };
        let set = set.clone();
        asking.set(true);
        error.set(None);
        spawn_local(async move {
            let answer = api::post::<_, Job>("/jobs", &request).await;
            // The page may be gone by now; the job runs all the same.
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
    Some(view! {
        <section class="card" id="train">
            <h2>"Train a model"</h2>
            <p class="hint">
                "On everything stored for one kind of hardware. The server also measures how good it is, on problems held back."
            </p>
            <div class="row train">
                {select("Hardware", None, choices, move || chosen.get(), move |slug| chosen.set(slug))}
                <button type="button" class="button primary" prop:disabled=move || asking.get() on:click=start>
                    "Train"
                </button>
            </div>
            {move || error.get().map(|message| view! { <p class="error-text" role="alert">{message}</p> })}
            {move || Some(job.get()).filter(|id| !id.is_empty()).map(|id| progress(id, ended.clone()))}
        </section>
    })
}
