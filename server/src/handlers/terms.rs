use axum::Json;
use axum::extract::State;
use diode_api::{DATA_LICENCE, TERMS_VERSION, Terms};

use crate::accounts::{Caller, TERMS_TEXT, is_asked, terms_address};
use crate::app::App;
use crate::http::{ApiResult, NoParameters, StrictQuery};

/// The terms of contributing that are in force, and whether whoever asks has yet to agree to them.
#[utoipa::path(
    get, path = "/terms", tag = "accounts",
    responses((status = 200, body = Terms)),
)]
pub(crate) async fn get(
    State(app): State<App>,
    _: StrictQuery<NoParameters>,
    caller: ApiResult<Caller>,
) -> Json<Terms> {
    let account = caller.ok().map(|caller| caller.account);
    Json(Terms {
        version: TERMS_VERSION,
        licence: DATA_LICENCE.to_owned(),
        text: TERMS_TEXT.to_owned(),
        address: terms_address(app.policy()),
        asked: is_asked(app.policy(), account.as_ref()),
    })
}
