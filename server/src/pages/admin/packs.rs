//! Kernel packs that agents pull.

use axum::extract::State;
use axum::response::Response;
use diode_api::PackSummary;
use diode_core::ids::Digest;
use maud::{Markup, html};
use serde::Deserialize;

use super::super::form::OwnForm;
use super::super::layout::day;
use super::{administrator, answered, back, checked, done};
use crate::accounts::{SignedIn, write_down};
use crate::app::App;
use crate::http::{ApiFault, ApiResult, NoParameters, StrictQuery};

const TITLE: &str = "Kernel packs";
const PATH: &str = "/admin/packs";
const MAX_LISTED: u32 = 200;

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
pub(in crate::pages) struct Fields {
    digest: Digest,
}

pub(in crate::pages) async fn withdraw(
    State(app): State<App>,
    caller: SignedIn,
    OwnForm(Fields { digest }): OwnForm<Fields>,
) -> ApiResult<Response> {
    let account = checked(caller)?;
    let outcome = match app.backend.store.remove_pack(&digest).await? {
        true => {
            write_down(&app, Some(&account), &format!("withdraw pack {digest}")).await?;
            Ok(done("The pack is withdrawn. Agents that have it stop using it."))
        }
        false => Err(ApiFault::not_found(format!("no pack `{digest}`"))),
    };
    answer(&app, outcome).await
}

async fn answer(app: &App, outcome: ApiResult<Markup>) -> ApiResult<Response> {
    let packs = app.backend.store.packs(None, MAX_LISTED).await?;
    Ok(answered(TITLE, outcome, |message| {
        html! {
            (message)
            (back())
            @if packs.is_empty() { p { "There is none. Publish one with " code { "diode kernels publish" } "." } }
            @for pack in &packs { (card(pack)) }
        }
    }))
}

fn card(pack: &PackSummary) -> Markup {
    let kernels: u64 = pack.variants.iter().map(|variant| variant.kernels).sum();
    html! {
        form class="card" method="post" action=(PATH) {
            p {
                strong { (pack.architecture) }
                @if let Some(triton) = &pack.triton { ", Triton " (triton) }
                @if let Some(space) = &pack.space { ", " (space) } br;
                (kernels) " kernels, " (pack.bytes >> 20) " MiB · published " (day(&pack.published_at))
                @if let Some(by) = &pack.published_by { " by " (by) } br;
                code { (pack.digest) }
            }
            details {
                summary { (pack.variants.len()) " variants" }
                ul { @for variant in &pack.variants { li { (variant.variant) } } }
            }
            input type="hidden" name="digest" value=(pack.digest);
            button class="button small danger" { "Withdraw" }
        }
    }
}
