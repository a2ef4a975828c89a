//! Uploads, and what users have reported.

use axum::extract::State;
use axum::response::Response;
use diode_api::query::from_text;
use diode_api::{Account, Moderation, ModerationAction, ModerationSubject, Receipt, Report, Standing};
use diode_core::ids::{AccountName, UploadId};
use maud::{Markup, html};
use serde::Deserialize;

use super::super::form::OwnForm;
use super::super::layout::{counted, input, minute};
use super::super::own::{measured, standing};
use super::{MAX_SHOWN, administrator, answered, back, checked, done};
use crate::accounts::SignedIn;
use crate::app::App;
use crate::http::{ApiFault, ApiResult, StrictQuery};
use crate::store::{Now, UploadFilter};

const TITLE: &str = "Uploads and reports";
const PATH: &str = "/admin/uploads";

#[derive(Default, Deserialize, utoipa::IntoParams)]
#[serde(default)]
pub(in crate::pages) struct Shown {
    #[serde(deserialize_with = "from_text")]
    #[param(value_type = Option<AccountName>)]
    contributor: Option<AccountName>,
    #[serde(deserialize_with = "from_text")]
    standing: Option<Standing>,
}

pub(in crate::pages) async fn show(
    State(app): State<App>,
    StrictQuery(shown): StrictQuery<Shown>,
    caller: ApiResult<SignedIn>,
) -> ApiResult<Response> {
    match administrator(TITLE, PATH, caller) {
        Ok(_) => answer(&app, shown, Ok(html! {})).await,
        Err(answer) => Ok(answer),
    }
}

#[derive(Deserialize)]
pub(in crate::pages) struct Fields {
    action: ModerationAction,
    /// Either the id of an upload or, for all uploads of an account, the name of the account.
    upload: Option<UploadId>,
    account: Option<AccountName>,
    reason: String,
}

pub(in crate::pages) async fn act(
    State(app): State<App>,
    caller: SignedIn,
    OwnForm(fields): OwnForm<Fields>,
) -> ApiResult<Response> {
    let outcome = match checked(caller) {
        Ok(account) => moderated(&app, &account, fields).await,
        Err(fault) => Err(fault),
    };
    answer(&app, Shown::default(), outcome).await
}

async fn moderated(app: &App, account: &Account, fields: Fields) -> ApiResult<Markup> {
    let subject = match (fields.upload, fields.account) {
        (Some(upload), _) => ModerationSubject::Upload(upload),
        (None, Some(name)) => ModerationSubject::Account(name),
        (None, None) => {
            return Err(ApiFault::invalid("expected the id of an upload or the name of an account"));
        }
    };
    let moderation = Moderation { action: fields.action, subject, reason: fields.reason.parse()? };
    let moderated = app.backend.store.moderate(&moderation, account.name.as_str(), Now::read()).await?;
    let moderated = moderated.ok_or_else(|| ApiFault::not_found(format!("no {}", moderation.subject)))?;
    app.backend.forget(moderated.files).await?;
    let changed = counted(moderated.uploads.len() as u64, "upload");
    Ok(done(&format!("{} {}: {changed} changed.", moderation.action, moderation.subject)))
}

async fn answer(app: &App, shown: Shown, outcome: ApiResult<Markup>) -> ApiResult<Response> {
    let store = &app.backend.store;
    let reports = store.reports(MAX_SHOWN).await?;
    let filter = UploadFilter { contributor: shown.contributor, standing: shown.standing };
    let uploads = store.uploads(&filter, MAX_SHOWN).await?;
    Ok(answered(TITLE, outcome, |message| content(&reports, &uploads, &filter, message)))
}

fn content(reports: &[Report], uploads: &[Receipt], filter: &UploadFilter, message: &Markup) -> Markup {
    let name = filter.contributor.as_ref().map_or("", AccountName::as_str);
    html! {
        (message)
        (back())
        h2 { "Reports" }
        @if reports.is_empty() { p { "Nobody has reported anything." } }
        @for report in reports {
            div class="card" {
                p {
                    strong { a href=(format!("/api/v1/uploads/{}", report.upload)) { "Upload " code { (report.upload) } } } br;
                    (minute(&report.at)) @if let Some(who) = &report.who { " by " (who) } ": " (report.reason.as_str())
                }
                (forms(&report.upload))
            }
        }
        h2 { "All uploads of an account" }
        form class="card" method="post" action=(PATH) {
            (input("Account", "account", "text", "off", name))
            (input("Reason", "reason", "text", "off", ""))
            (actions())
        }
        h2 { "The newest uploads" }
        form class="row" method="get" action=(PATH) {
            @for choice in Standing::ALL {
                button class="button small" name="standing" value=(choice) { (choice) }
            }
            a href=(PATH) { "all" }
        }
        @if uploads.is_empty() { p { "There are none." } }
        @for upload in uploads {
            div class="card" {
                p {
                    strong { code { (upload.id) } } " · "
                    @match &upload.contributor { Some(name) => (name), None => "without an account" }
                    " · " (minute(&upload.received_at)) br;
                    (standing(upload)) br;
                    (measured(upload))
                }
                (forms(&upload.id))
            }
        }
    }
}

/// The forms of an upload. They are folded away, because a page has many uploads.
fn forms(upload: &UploadId) -> Markup {
    html! {
        details {
            summary { "Quarantine, restore or delete" }
            form method="post" action=(PATH) {
                input type="hidden" name="upload" value=(upload);
                (input("Reason", "reason", "text", "off", ""))
                (actions())
            }
        }
    }
}

fn actions() -> Markup {
    html! {
        div class="row" {
            button class="button" name="action" value="quarantine" { "Quarantine" }
            button class="button" name="action" value="restore" { "Restore" }
            button class="button danger" name="action" value="delete" { "Delete for good" }
        }
    }
}
