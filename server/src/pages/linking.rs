//! Links an account with an OpenID Connect provider, and unlinks it.

use axum::extract::State;
use axum::response::Response;
use diode_api::Password;
use maud::html;
use serde::Deserialize;

use super::account;
use super::form::OwnForm;
use super::openid::on_the_way;
use crate::accounts::openid::{Wish, begin, link_first, unlink as take_off};
use crate::accounts::{Peer, SignedIn};
use crate::app::App;
use crate::http::ApiResult;

#[derive(Deserialize)]
pub(super) struct ConfirmFields {
    password: Option<Password>,
}

pub(super) async fn link(
    State(app): State<App>,
    peer: Peer,
    caller: SignedIn,
    OwnForm(ConfirmFields { password }): OwnForm<ConfirmFields>,
) -> ApiResult<Response> {
    let account = caller.account.clone();
    let begun = async {
        link_first(&app, &peer, &caller, password).await?;
        let wish = Wish { link: Some(caller), ..Wish::default() };
        on_the_way(&app, begin(&app, &peer, wish).await?)
    };
    match begun.await {
        Ok(response) => Ok(response),
        Err(fault) => account::answer(&app, &account, Err(fault)).await,
    }
}

pub(super) async fn unlink(
    State(app): State<App>,
    peer: Peer,
    caller: SignedIn,
    OwnForm(ConfirmFields { password }): OwnForm<ConfirmFields>,
) -> ApiResult<Response> {
    let done = take_off(&app, &peer, &caller, password).await;
    let said =
        done.map(|()| html! { p class="notice" role="status" { "Your account is not linked any more." } });
    account::answer(&app, &caller.account, said).await
}
