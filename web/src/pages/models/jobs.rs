//! The server's jobs, current and past.

use std::sync::Arc;

use diode_api::{Job, JobKind, ModelType};
use leptos::prelude::*;

use super::progress::Progress;
use crate::components::{Empty, Loaded};
use crate::format;
use crate::remote::remote;

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
        return view! { <Empty heading="There was none yet">"The form above starts the first one."</Empty> }
            .into_any();
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
    let table = (!ended.is_empty()).then(|| table(ended));
    view! {
        {running.collect_view()}
        {table}
    }
    .into_any()
}

fn table(ended: Vec<&Job>) -> impl IntoView + use<> {
    view! {
        <div class="table-box" tabindex="0">
            <table>
                <thead>
                    <tr>
                        <th>"Job"</th>
                        <th>"State"</th>
                        <th>"What came of it"</th>
                        <th class="num">"Asked for"</th>
                    </tr>
                </thead>
                <tbody>{ended.into_iter().map(row).collect_view()}</tbody>
            </table>
        </div>
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
