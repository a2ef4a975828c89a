//! Hardware whose facts are not confirmed, and hardware with two names.

use axum::extract::State;
use axum::response::Response;
use diode_api::{HardwareConfirmation, HardwareMerge, HardwareSummary};
use diode_core::ids::{HardwareSlug, UploadId};
use maud::{Markup, html};
use serde::Deserialize;

use super::super::form::OwnForm;
use super::super::layout::{counted, input};
use super::{administrator, answered, back, checked, done};
use crate::accounts::SignedIn;
use crate::app::App;
use crate::confirming::confirm;
use crate::handlers::hardware_moderation::merged;
use crate::http::{ApiResult, NoParameters, StrictQuery};

const TITLE: &str = "Hardware";
const PATH: &str = "/admin/hardware";

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
pub(in crate::pages) struct ConfirmFields {
    hardware: HardwareSlug,
    /// The upload whose facts are confirmed. Empty for the facts that the server has.
    upload: String,
    reason: String,
}

pub(in crate::pages) async fn confirm_one(
    State(app): State<App>,
    caller: SignedIn,
    OwnForm(fields): OwnForm<ConfirmFields>,
) -> ApiResult<Response> {
    let outcome = async {
        let account = checked(caller)?;
        let upload: Option<UploadId> =
            Some(fields.upload.trim()).filter(|id| !id.is_empty()).map(str::parse).transpose()?;
        let request =
            HardwareConfirmation { hardware: fields.hardware, upload, reason: fields.reason.parse()? };
        confirm(&app.backend, &request, account.name.as_str()).await?;
        Ok(done(&format!("The facts of {} are confirmed.", request.hardware)))
    };
    let outcome = outcome.await;
    answer(&app, outcome).await
}

#[derive(Deserialize)]
pub(in crate::pages) struct MergeFields {
    from: HardwareSlug,
    into: HardwareSlug,
    reason: String,
}

pub(in crate::pages) async fn merge(
    State(app): State<App>,
    caller: SignedIn,
    OwnForm(fields): OwnForm<MergeFields>,
) -> ApiResult<Response> {
    let outcome = async {
        let account = checked(caller)?;
        let request = HardwareMerge { from: fields.from, into: fields.into, reason: fields.reason.parse()? };
        let solutions = merged(&app, &request, account.name.as_str()).await?;
        let HardwareMerge { from, into, .. } = request;
        let solutions = counted(solutions, "solution");
        Ok(done(&format!("{from} is part of {into} now, with its {solutions}.")))
    };
    let outcome = outcome.await;
    answer(&app, outcome).await
}

async fn answer(app: &App, outcome: ApiResult<Markup>) -> ApiResult<Response> {
    let all = app.backend.store.hardware_list().await?;
    Ok(answered(TITLE, outcome, |message| content(&all, message)))
}

fn content(all: &[HardwareSummary], message: &Markup) -> Markup {
    let doubtful: Vec<&HardwareSummary> =
        all.iter().filter(|one| !one.confirmed || one.conflicting_uploads > 0).collect();
    html! {
        (message)
        (back())
        h2 { "To confirm" }
        @if doubtful.is_empty() { p { "Somebody vouches for the facts of all hardware." } }
        @for one in doubtful { (doubtful_card(one)) }
        h2 { "Merge" }
        form class="card" method="post" action="/admin/hardware/merge" {
            p { "Makes one kind of hardware a part of another that it turned out to be. It cannot be taken back." }
            (choice("This one …", "from", all))
            (choice("… is a part of", "into", all))
            (input("Reason", "reason", "text", "off", ""))
            button class="button danger" { "Merge for good" }
        }
    }
}

fn doubtful_card(one: &HardwareSummary) -> Markup {
    html! {
        form class="card" method="post" action="/admin/hardware/confirm" {
            p {
                strong { a href=(format!("/hardware/{}", one.hardware.slug)) { (one.hardware.name) } } br;
                (counted(one.problems, "problem")) ", " (counted(one.timings, "timing"))
                @if one.conflicting_uploads > 0 { "; in " (counted(one.conflicting_uploads, "upload")) " the facts differ" }
            }
            @match &one.hardware.facts {
                Some(facts) => pre { (serde_json::to_string_pretty(facts).unwrap_or_default()) },
                None => p { "Nobody has described it." },
            }
            input type="hidden" name="hardware" value=(one.hardware.slug);
            label class="field" {
                span class="label" { "Facts of this upload instead; its id" }
                input type="text" name="upload" autocomplete="off" spellcheck="false";
            }
            (input("Reason", "reason", "text", "off", ""))
            button class="button" { "Vouch for these facts" }
        }
    }
}

fn choice(label: &str, name: &str, all: &[HardwareSummary]) -> Markup {
    html! {
        label class="field" {
            span class="label" { (label) }
            select name=(name) required {
                @for one in all { option value=(one.hardware.slug) { (one.hardware.slug) } }
            }
        }
    }
}
