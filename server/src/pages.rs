//! The pages that the server writes itself: to sign up and in, to allow a program, to look after an account, and to
//! look after the server. They are plain HTML with forms, so they work without scripts and without the dashboard.

mod account;
mod admin;
mod agreeing;
mod device;
mod form;
mod layout;
mod linking;
mod models;
mod openid;
mod own;
mod password;
mod sign_in;
mod sign_up;
mod terms;

use axum::Router;
use axum::routing::{get, post};

use crate::app::App;

pub(crate) fn routes() -> Router<App> {
    Router::new()
        .route("/sign-in", get(sign_in::show).post(sign_in::submit))
        .route("/sign-up", get(sign_up::show).post(sign_up::submit))
        .route("/sign-out", post(sign_in::sign_out))
        .route("/password", get(password::show).post(password::submit))
        .route("/password/forgotten", get(password::show_lost))
        .route("/device", get(device::show).post(device::submit))
        .route("/account", get(account::show))
        .route("/account/models", get(models::show).post(models::decide))
        .route("/account/contributions", get(own::show))
        .route("/admin", get(admin::show))
        .route("/admin/uploads", get(admin::uploads::show).post(admin::uploads::act))
        .route("/admin/hardware", get(admin::hardware::show))
        .route("/admin/hardware/confirm", post(admin::hardware::confirm_one))
        .route("/admin/hardware/merge", post(admin::hardware::merge))
        .route("/admin/accounts", get(admin::accounts::show).post(admin::accounts::act))
        .route("/admin/accounts/invite", post(admin::accounts::invite))
        .route("/admin/packs", get(admin::packs::show).post(admin::packs::withdraw))
        .route("/admin/trainings", get(admin::trainings::show))
        .route("/admin/trainings/cancel", post(admin::trainings::cancel))
        .route("/admin/trainings/publish", post(admin::trainings::publish))
        .route("/account/password", post(account::change_password))
        .route("/account/tokens", post(account::issue))
        .route("/account/tokens/revoke", post(account::revoke))
        .route("/account/terms", post(agreeing::submit))
        .route("/terms", get(terms::show))
        .route("/account/delete", post(account::delete))
        .route("/sign-in/openid", post(openid::submit))
        .route("/sign-in/openid/callback", get(openid::callback))
        .route("/sign-up/openid", get(openid::show_name).post(openid::submit_name))
        .route("/account/openid", post(linking::link))
        .route("/account/openid/unlink", post(linking::unlink))
}
