//! Who asks, and what they may do: accounts, sessions, API tokens.
//!
//! A route names the requests that it admits by one of the extractors `Authorized` and `SignedIn`. The layer
//! around all routes refuses requests of other sites' pages. Secrets are random; only their digests are
//! stored.

pub(crate) mod account_routes;
pub(crate) mod account_store;
mod callers;
pub(crate) mod devices;
pub(crate) mod identity_store;
pub(crate) mod openid;
pub(crate) mod own;
mod pages;
mod password;
mod policy;
pub(crate) mod secrets;
pub(crate) mod session_store;
pub(crate) mod sessions;
pub(crate) mod terms;

use axum::Router;
use axum::routing::{get, post};

pub(crate) use callers::{
    Admin, Authorized, By, Caller, Contribute, Identified, Measure, Peer, Report, Right, SignedIn, Train,
    Upload,
};
pub use openid::Provider;
pub(crate) use password::Passwords;
pub use policy::{Anonymous, Lead, Policy, SignUps};
pub use secrets::{Link, first_account_link, invitation_link, password_link};
pub(crate) use secrets::{TOKEN_PREFIX, issue, new_account_id, new_lease_id};
pub(crate) use sessions::{
    admit_report, change_password, choose_password, delete, sign_in, sign_out, sign_up,
};
pub(crate) use terms::{Needed, agree, licence_of};

use crate::app::App;
use crate::pages::plain;

/// The pages of accounts.
pub(crate) fn pages() -> Router<App> {
    Router::new()
        .route("/sign-in", get(pages::show_sign_in).post(pages::submit_sign_in))
        .route("/sign-up", get(pages::show_sign_up).post(pages::submit_sign_up))
        .route("/sign-out", post(pages::sign_out))
        .route("/password", get(pages::show_password).post(pages::submit_password))
        .route("/password/forgotten", plain(get(pages::show_lost)))
        .route("/device", get(devices::show_device).post(devices::submit_device))
        .route("/account", plain(get(pages::show_account)))
        .route("/account/contributions", plain(get(own::show_own)))
        .route("/account/password", post(pages::change_password_by_form))
        .route("/account/tokens", post(pages::issue_token))
        .route("/account/tokens/revoke", post(pages::revoke_token_of_form))
        .route("/account/terms", post(terms::agree_by_form))
        .route("/terms", plain(get(terms::show_terms)))
        .route("/account/delete", post(pages::delete_by_form))
        .route("/sign-in/openid", post(openid::pages::submit))
        .route("/sign-in/openid/callback", get(openid::pages::callback))
        .route("/sign-up/openid", plain(get(openid::pages::show_name).post(openid::pages::submit_name)))
        .route("/account/openid", post(openid::pages::link_by_form))
        .route("/account/openid/unlink", post(openid::pages::unlink_by_form))
}
