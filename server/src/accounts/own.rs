//! What an account has contributed: its uploads, its agents, and the problems on which nobody is faster.

use axum::extract::State;
use axum::response::Response;
use diode_api::{Account, Agent, Receipt, Standing};
use diode_core::Micros;
use maud::{Markup, html};

use crate::accounts::SignedIn;
use crate::app::App;
use crate::http::ApiResult;
use crate::pages::sign_in_first;
use crate::pages::{counted, day, page};
use crate::store::{Record, Sample, UploadFilter};

const TITLE: &str = "Your contributions";

/// The most rows of each list.
const MAX_SHOWN: u32 = 50;

pub(crate) async fn show_own(State(app): State<App>, caller: ApiResult<SignedIn>) -> ApiResult<Response> {
    match caller {
        Ok(caller) => Ok(page(TITLE, &content(&app, &caller.account).await?)),
        Err(_) => Ok(sign_in_first("/account/contributions")),
    }
}

async fn content(app: &App, account: &Account) -> ApiResult<Markup> {
    let store = &app.backend.store;
    let filter = UploadFilter { contributor: Some(account.name.clone()), standing: None };
    let uploads = store.uploads(&filter, MAX_SHOWN).await?;
    let agents = store.agents_of(&account.id, MAX_SHOWN).await?;
    let records = store.records(&account.id, MAX_SHOWN).await?;
    Ok(html! {
        p { a href="/account" { "Your account" } " · " a href="/contribute" { "Contribute" } }
        h2 { "Uploads" }
        @if uploads.is_empty() { p { "None yet. Send timings with " code { "diode upload" } " or on " a href="/contribute" { "Contribute" } "." } }
        @for upload in &uploads { (upload_card(upload)) }
        (at_most(uploads.len()))
        h2 { "Agents" }
        @if agents.is_empty() { p { "None yet. " code { "diode agent" } " measures what is missing, by itself." } }
        @for agent in &agents { (agent_card(agent)) }
        (at_most(agents.len()))
        h2 { "Records" }
        (shown(&records))
    })
}

fn at_most(shown: usize) -> Markup {
    html! { @if shown == MAX_SHOWN as usize { p { "These are the newest " (shown) "." } } }
}

/// Whether an upload counts, in words.
pub(crate) fn standing(upload: &Receipt) -> Markup {
    html! {
        @match upload.standing {
            Standing::Counts => "counts",
            Standing::Fenced => "fenced",
            Standing::Quarantined => "quarantined",
        }
        @if let Some(reason) = &upload.reason { ": " (reason) }
    }
}

/// What was measured, in words: `nvidia-h200, 1340 problems, 981000 timings`.
pub(crate) fn measured(upload: &Receipt) -> Markup {
    html! {
        @for (place, receipt) in upload.hardware.iter().enumerate() {
            @if place > 0 { "; " }
            a href=(format!("/hardware/{}", receipt.slug)) { (receipt.slug) }
            ", " (counted(receipt.problems, "problem")) ", " (counted(receipt.timings, "timing"))
            @let apart: u64 = receipt.set_apart.iter().map(|set| set.timings).sum();
            @if apart > 0 { ", " (apart) " set apart" }
        }
    }
}

fn upload_card(upload: &Receipt) -> Markup {
    html! {
        div class="card" {
            p {
                strong { (day(&upload.received_at)) } " · " (standing(upload)) br;
                (measured(upload)) br;
                a href=(format!("/api/v1/uploads/{}", upload.id)) { "Receipt" }
                " · " a href=(format!("/api/v1/uploads/{}/download", upload.id)) { "The file" }
            }
        }
    }
}

fn agent_card(agent: &Agent) -> Markup {
    html! {
        div class="card" {
            p {
                strong { (agent.name) } " · " a href=(format!("/hardware/{}", agent.hardware)) { (agent.hardware) } br;
                @match (&agent.put_aside, &agent.lease) {
                    (Some(reason), _) => { "put aside: " (reason) }
                    (None, Some(_)) => "at work",
                    (None, None) => "has no work now",
                }
                " · " (counted(agent.measured, "problem")) " measured · last seen " (day(&agent.seen_at))
            }
        }
    }
}

fn shown(records: &Sample<Record>) -> Markup {
    html! {
        @if records.items.is_empty() {
            p { "None yet. A record is a problem on which nobody has timed anything faster than you." }
        } @else {
            p {
                "On " strong { (counted(records.total, "problem")) } " nobody has timed anything faster than you"
                @if records.total > records.items.len() as u64 { "; these have the most work" }
                "."
            }
            ul {
                @for Record { hardware, problem, time, contributors } in &records.items {
                    @let Micros(us) = time;
                    li {
                        a href=(format!("/problems/{}?hardware={hardware}", problem.id())) {
                            (problem.op) " " (problem.dims()) " " (problem.a_dtype)
                        }
                        " on " (hardware) ": " (format!("{us:.1} µs"))
                        @if *contributors < 2 { ", unconfirmed" }
                    }
                }
            }
        }
    }
}
