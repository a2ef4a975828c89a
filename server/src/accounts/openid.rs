//! Signing in by an OpenID Connect provider, with the authorization code flow and PKCE.
//!
//! A browser gets a secret in a cookie. It goes to the provider with values that are derived from the secret
//! ([`keys`]). The answer counts once, and only together with the cookie. An identity is the provider's
//! issuer and its name for somebody, never an e-mail address.

mod begin;
mod finish;
mod keys;
mod link;
mod provider;
mod sign_up;

use std::sync::Arc;

pub(crate) use begin::{Wish, begin};
pub(crate) use finish::{Answer, Finished, finish};
pub(crate) use link::{link_first, unlink};
pub use provider::Provider;
pub(crate) use sign_up::{choose_name, who_signs_up};

use crate::app::App;
use crate::http::{ApiFault, ApiResult};

/// The provider of this server.
fn provider(app: &App) -> ApiResult<Arc<Provider>> {
    app.provider.clone().ok_or_else(|| {
        ApiFault::not_found("this server has no OpenID Connect provider; sign in with a password at /sign-in")
    })
}
