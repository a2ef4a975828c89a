//! Trainings and other jobs, and which models are published.

use axum::extract::State;
use axum::response::Response;
use diode_api::{Job, ModelState, ModelSummary, NewPublication, PublicationAction};
use diode_core::ids::{JobId, ModelId};
use maud::{Markup, html};
use serde::Deserialize;

use super::super::form::OwnForm;
use super::super::layout::{day, input, minute};
use super::{administrator, answered, back, checked, done};
use crate::accounts::{SignedIn, write_down};
use crate::app::App;
use crate::handlers::publications::refuse;
use crate::http::{ApiFault, ApiResult, NoParameters, StrictQuery};
use crate::store::Now;

const TITLE: &str = "Trainings and models";
const PATH: &str = "/admin/trainings";

const MAX_JOBS: u32 = 20;
const MAX_MODELS: u32 = 100;

pub(in crate::pages) async fn show(
    State(app): State<App>,
    _: StrictQuery<NoParameters>,
    caller: ApiResult<SignedIn>,
) -> ApiResult<Response> {
    match administrator(TITLE, PATH, caller) {
        Ok(_) => answer(&app, Ok(html! {})).await,
        Err(answer) => Ok(answer),
    }
}

#[derive(Deserialize)]
pub(in crate::pages) struct CancelFields {
    job: JobId,
}

pub(in crate::pages) async fn cancel(
    State(app): State<App>,
    caller: SignedIn,
    OwnForm(CancelFields { job }): OwnForm<CancelFields>,
) -> ApiResult<Response> {
    let account = checked(caller)?;
    let outcome = match app.backend.store.cancel_job(&job, Now::read()).await? {
        Some(_) => {
            write_down(&app, Some(&account), &format!("cancel job {job}")).await?;
            Ok(done(&format!("Job {job} is cancelled.")))
        }
        None => Err(ApiFault::conflict(format!("job `{job}` has ended, so it cannot be cancelled"))),
    };
    answer(&app, outcome).await
}

#[derive(Deserialize)]
pub(in crate::pages) struct PublishFields {
    model: ModelId,
    action: PublicationAction,
    reason: String,
}

pub(in crate::pages) async fn publish(
    State(app): State<App>,
    caller: SignedIn,
    OwnForm(fields): OwnForm<PublishFields>,
) -> ApiResult<Response> {
    let outcome = async {
        let account = checked(caller)?;
        let PublishFields { model, action, reason } = fields;
        let request = NewPublication { action, model, reason: reason.parse()? };
        let published = app.backend.store.publish(&request, account.name.as_str(), Now::read()).await?;
        let published = published.map_err(|refused| refuse(refused, &request))?;
        let pinned = if published.pinned { " and pinned" } else { "" };
        Ok(done(&format!("Of {}, {} is published{pinned}.", published.hardware, published.id)))
    };
    let outcome = outcome.await;
    answer(&app, outcome).await
}

async fn answer(app: &App, outcome: ApiResult<Markup>) -> ApiResult<Response> {
    let store = &app.backend.store;
    let (jobs, models) = (store.jobs(MAX_JOBS).await?, store.models(None, MAX_MODELS).await?);
    Ok(answered(TITLE, outcome, |message| {
        html! {
            (message)
            (back())
            h2 { "Jobs" }
            p { "How they go on is on " a href="/models#jobs" { "Models" } ", where you start one, too." }
            @if jobs.is_empty() { p { "There was none yet." } }
            @for job in &jobs { (job_card(job)) }
            h2 { "Models" }
            @for model in &models { (model_card(model)) }
        }
    }))
}

fn job_card(job: &Job) -> Markup {
    html! {
        form class="card" method="post" action="/admin/trainings/cancel" {
            p {
                strong { (job.request.kind) " " (job.request.hardware) ", " (job.request.model_type) } " · " (job.state)
                @if job.automatic { " · by the server itself" } br;
                (minute(&job.created_at))
                @if let Some(error) = &job.error { br; (error) }
            }
            @if !job.state.is_final() {
                input type="hidden" name="job" value=(job.id);
                button class="button small danger" { "Cancel" }
            }
        }
    }
}

fn model_card(model: &ModelSummary) -> Markup {
    let is_published = model.state == ModelState::Published;
    html! {
        form class="card" method="post" action="/admin/trainings/publish" {
            p {
                strong { a href=(format!("/models/{}", model.id)) { (model.hardware) " " code { (model.id) } } } br;
                (model.model_type) ", " (model.state) @if model.pinned { ", pinned" } " · " (day(&model.created_at))
                @if !model.reason.is_empty() { br; (model.reason) }
            }
            details {
                summary { @if is_published { "Roll back or pin" } @else { "Publish" } }
                input type="hidden" name="model" value=(model.id);
                (input("Reason", "reason", "text", "off", ""))
                div class="row" {
                    @if is_published {
                        button class="button danger" name="action" value="roll-back" { "Roll back" }
                        @if model.pinned {
                            button class="button" name="action" value="unpin" { "Unpin" }
                        } @else {
                            button class="button" name="action" value="pin" { "Pin" }
                        }
                    } @else {
                        button class="button" name="action" value="publish" { "Publish" }
                    }
                }
            }
        }
    }
}
