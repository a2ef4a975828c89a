//! Contributed models: the account's own and, for administrators, the models that wait for a decision.

use axum::extract::State;
use axum::response::Response;
use diode_api::{Account, Contribution, ContributionState, ModelFigures, ModelSummary};
use maud::{Markup, html};

use crate::accounts::SignedIn;
use crate::admin::acts::{Act, Actor};
use crate::app::App;
use crate::http::{ApiFault, ApiResult};
use crate::pages::{OwnForm, sign_in_first};
use crate::pages::{input, page, refused};
use crate::store::ContributionFilter;

const TITLE: &str = "Contributed models";

/// The most models that a page shows.
const MAX_SHOWN: u32 = 100;

pub(crate) async fn show(State(app): State<App>, caller: ApiResult<SignedIn>) -> ApiResult<Response> {
    match caller {
        Ok(caller) => answer(&app, &caller.account, Ok(html! {})).await,
        Err(_) => Ok(sign_in_first("/account/models")),
    }
}

pub(crate) async fn decide(
    State(app): State<App>,
    SignedIn { account, .. }: SignedIn,
    OwnForm(fields): OwnForm<Vec<(String, String)>>,
) -> ApiResult<Response> {
    let decided = async {
        if !account.admin {
            return Err(ApiFault::forbidden("only an administrator of this server may do this"));
        }
        let said = Act::of_form(fields)?.run(&app.backend, Actor::Account(&account)).await?;
        Ok(html! { p class="notice" role="status" { (said) } })
    };
    let done = decided.await;
    answer(&app, &account, done).await
}

/// The models that wait for an administrator's decision.
pub(crate) fn open() -> ContributionFilter {
    ContributionFilter { account: None, state: Some(ContributionState::Evaluated) }
}

async fn answer(app: &App, account: &Account, outcome: ApiResult<Markup>) -> ApiResult<Response> {
    let store = &app.backend.store;
    let own = ContributionFilter { account: Some(account.id.clone()), state: None };
    let own = store.contributions(&own, MAX_SHOWN).await?;
    let mut open = Vec::new();
    if account.admin {
        for state in [ContributionState::Evaluated, ContributionState::Waiting] {
            let filter = ContributionFilter { account: None, state: Some(state) };
            open.extend(store.contributions(&filter, MAX_SHOWN).await?);
        }
    }
    let content = |message: &Markup| {
        html! {
            (message)
            p { a href="/account" { "Your account" } }
            @if account.admin {
                h2 { "To decide" }
                @if open.is_empty() { p { "No model waits." } }
                @for model in &open { (card(model, true)) }
            }
            h2 { "Yours" }
            @if own.is_empty() { p { "Send one with " code { "diode models contribute" } "." } }
            @for model in &own { (card(model, false)) }
        }
    };
    Ok(match outcome {
        Ok(message) => page(TITLE, &content(&message)),
        Err(fault) => refused(TITLE, fault, content),
    })
}

fn card(model: &ModelSummary, is_open: bool) -> Markup {
    let Some(about) = &model.contribution else { return html! {} };
    let Contribution { state, by, description, licence, figures, reason, without_kept, .. } = about;
    html! {
        form class="card" method="post" action="/account/models" {
            p {
                strong { (model.hardware) " " code { (model.id) } } br;
                (state) @if !reason.is_empty() { ": " (reason) }
                @if let Some(by) = by { " · by " (by) }
                " · " (licence.as_str())
            }
            p { (description.as_str()) }
            @match figures {
                Some(figures) => (shown(figures)),
                None => p { "Not judged yet." },
            }
            @if !without_kept { p { "It may have learnt the kept problems: then its figures are too good." } }
            @if is_open {
                p { a href=(format!("/api/v1/reviews/{}/download", model.id)) { "The file" } }
                input type="hidden" name="model" value=(model.id);
                (input("Reason", "reason", "text", "off", ""))
                div class="row" {
                    @if *state == ContributionState::Evaluated {
                        button class="button" name="act" value="accept" { "Accept" }
                    }
                    button class="button danger" name="act" value="decline" { "Decline" }
                }
            }
        }
    }
}

fn shown(figures: &ModelFigures) -> Markup {
    let share = |geomean: f64| format!("{:.1} %", 100.0 * geomean);
    html! {
        @if let Some(kept) = &figures.kept {
            p {
                "First picks: " strong { (share(kept.triton.geomean)) } " of the best Triton config"
                @if let Some(beside) = &figures.beside_kept {
                    "; the published model: " (share(beside.triton.geomean))
                }
                "."
            }
        }
        p { (figures.why) "." }
    }
}
