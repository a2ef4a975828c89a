//! Accounts: a list of them, and links for passwords and invitations.

use axum::extract::State;
use axum::response::Response;
use diode_api::Account;
use diode_core::ids::AccountName;
use maud::{Markup, html};
use serde::Deserialize;

use super::super::form::OwnForm;
use super::super::layout::day;
use super::{administrator, answered, back, checked, done};
use crate::accounts::{Link, SignedIn, invitation_link, password_link, write_down};
use crate::app::App;
use crate::http::{ApiFault, ApiResult, NoParameters, StrictQuery};
use crate::store::{Credentials, Now};

const TITLE: &str = "Accounts";
const PATH: &str = "/admin/accounts";

pub(in crate::pages) async fn show(
    State(app): State<App>,
    _: StrictQuery<NoParameters>,
    caller: ApiResult<SignedIn>,
) -> ApiResult<Response> {
    match administrator(TITLE, PATH, caller) {
        Ok(account) => answer(&app, &account, Ok(html! {})).await,
        Err(answer) => Ok(answer),
    }
}

/// What an administrator does with an account.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum AccountAction {
    Disable,
    Enable,
    /// Makes a link to choose a new password.
    Reset,
}

#[derive(Deserialize)]
pub(in crate::pages) struct Fields {
    name: AccountName,
    action: AccountAction,
}

pub(in crate::pages) async fn act(
    State(app): State<App>,
    caller: SignedIn,
    OwnForm(Fields { name, action }): OwnForm<Fields>,
) -> ApiResult<Response> {
    let account = checked(caller)?;
    let outcome = acted(&app, &account, &name, action).await;
    answer(&app, &account, outcome).await
}

async fn acted(app: &App, own: &Account, name: &AccountName, action: AccountAction) -> ApiResult<Markup> {
    let store = &app.backend.store;
    let found = store.credentials(name).await?;
    let found = found.ok_or_else(|| ApiFault::not_found(format!("no account `{name}`")))?.account;
    let disabled = match action {
        AccountAction::Reset => {
            let link = password_link(store.as_ref(), app.policy(), found.id).await;
            let link = link.map_err(ApiFault::internal)?;
            write_down(app, Some(own), &format!("make a link for a new password of {name}")).await?;
            return Ok(shown(&format!("{name} chooses a new password"), &link));
        }
        AccountAction::Disable if found.id == own.id => {
            return Err(ApiFault::conflict("this is your own account; another administrator may disable it"));
        }
        AccountAction::Disable => true,
        AccountAction::Enable => false,
    };
    store.set_disabled(&found.id, disabled, Now::read()).await?;
    write_down(app, Some(own), &format!("{} {name}", if disabled { "disable" } else { "enable" })).await?;
    Ok(done(&format!(
        "{name} is {}.",
        if disabled { "disabled; its sessions have ended" } else { "enabled" }
    )))
}

pub(in crate::pages) async fn invite(State(app): State<App>, caller: SignedIn) -> ApiResult<Response> {
    let account = checked(caller)?;
    let outcome = async {
        let link = invitation_link(app.backend.store.as_ref(), app.policy()).await;
        let link = link.map_err(ApiFault::internal)?;
        write_down(&app, Some(&account), "make an invitation").await?;
        Ok(shown("One account can be made", &link))
    };
    let outcome = outcome.await;
    answer(&app, &account, outcome).await
}

fn shown(what: &str, link: &Link) -> Markup {
    html! {
        div class="card" role="status" {
            p { (what) " by this link. It works once, until " (link.expires.strftime("%F %R UTC").to_string()) ":" }
            p class="secret" { (link.url) }
        }
    }
}

async fn answer(app: &App, own: &Account, outcome: ApiResult<Markup>) -> ApiResult<Response> {
    let all = app.backend.store.accounts().await?;
    Ok(answered(TITLE, outcome, |message| {
        html! {
            (message)
            (back())
            form class="row" method="post" action="/admin/accounts/invite" {
                button class="button" { "Make an invitation" }
            }
            @for found in &all { (card(found, own)) }
        }
    }))
}

fn card(found: &Credentials, own: &Account) -> Markup {
    let Credentials { account, password, disabled, .. } = found;
    html! {
        form class="card" method="post" action=(PATH) {
            p {
                strong { (account.name) }
                @if account.admin { ", an administrator" }
                @if *disabled { ", disabled" }
                @if password.is_none() { ", without a password" }
                br;
                "since " (day(&account.created_at)) " · "
                a href=(format!("/admin/uploads?contributor={}", account.name)) { "uploads" }
            }
            input type="hidden" name="name" value=(account.name);
            div class="row" {
                @if *disabled {
                    button class="button small" name="action" value="enable" { "Enable" }
                } @else if account.id != own.id {
                    button class="button small danger" name="action" value="disable" { "Disable" }
                }
                button class="button small" name="action" value="reset" { "Link for a new password" }
            }
        }
    }
}
