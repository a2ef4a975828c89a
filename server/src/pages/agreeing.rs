//! Agreeing to the terms of contributing at `/account`.

use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use diode_api::Agree;
use serde::Deserialize;

use super::account;
use super::form::OwnForm;
use crate::accounts::{By, Caller, SignedIn, agree};
use crate::app::App;
use crate::http::ApiResult;

#[derive(Deserialize)]
pub(super) struct Fields {
    terms: u32,
}

pub(super) async fn submit(
    State(app): State<App>,
    SignedIn { account, session }: SignedIn,
    OwnForm(Fields { terms }): OwnForm<Fields>,
) -> ApiResult<Response> {
    let caller = Caller { account, by: By::Session(session) };
    match agree(&app, &caller, Agree { version: terms }).await {
        Ok(()) => Ok(Redirect::to("/account").into_response()),
        Err(fault) => account::answer(&app, &caller.account, Err(fault)).await,
    }
}
