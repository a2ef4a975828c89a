use std::marker::PhantomData;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use diode_api::{Account, Scope};

use super::caller::{By, Caller};
use super::{Anonymous, Policy};
use crate::app::App;
use crate::http::{ApiFault, ApiResult};

/// Admits the requests that have the right `R`.
pub(crate) struct Authorized<R> {
    /// `None` if the request has no account and this server does not need one for the right.
    pub(crate) account: Option<Account>,
    right: PhantomData<R>,
}

impl Authorized<Admin> {
    /// The name that the log keeps. There always is an account, because this right always needs an account.
    pub(crate) fn who(&self) -> &str {
        self.account.as_ref().map_or("nobody", |account| account.name.as_str())
    }
}

/// A right that routes ask for: what it allows, and what a request needs to have it.
pub(crate) trait Right {
    /// The scope that a token must have.
    const SCOPE: Scope;

    /// The start of the message "`WHAT` needs an account".
    const WHAT: &'static str;

    /// Whether a request has the right without an account.
    fn is_free(policy: &Policy) -> bool;
}

/// The right to store datasets.
pub(crate) struct Upload;
/// The right to contribute models, and to see one's own contributions.
pub(crate) struct Contribute;
/// The right to tell administrators of a bad upload.
pub(crate) struct Report;
/// The right to measure what the server asks for.
pub(crate) struct Measure;
/// The right to ask for trainings.
pub(crate) struct Train;
/// The right to look after the server.
pub(crate) struct Admin;

impl Right for Upload {
    const SCOPE: Scope = Scope::Upload;
    const WHAT: &'static str = "an upload to this server";

    fn is_free(policy: &Policy) -> bool {
        policy.anonymous != Anonymous::None
    }
}

impl Right for Contribute {
    const SCOPE: Scope = Scope::Upload;
    const WHAT: &'static str = "contributing models to this server";

    /// Never free: an administrator decides on contributed models, which name their contributor.
    fn is_free(_: &Policy) -> bool {
        false
    }
}

impl Right for Report {
    const SCOPE: Scope = Scope::Upload;
    const WHAT: &'static str = "a report to this server";

    fn is_free(policy: &Policy) -> bool {
        Upload::is_free(policy)
    }
}

impl Right for Measure {
    const SCOPE: Scope = Scope::Agent;
    const WHAT: &'static str = "an agent of this server";

    fn is_free(policy: &Policy) -> bool {
        policy.anonymous != Anonymous::None
    }
}

impl Right for Train {
    const SCOPE: Scope = Scope::Train;
    const WHAT: &'static str = "a training on this server";

    fn is_free(policy: &Policy) -> bool {
        policy.anonymous == Anonymous::All
    }
}

impl Right for Admin {
    const SCOPE: Scope = Scope::Admin;
    const WHAT: &'static str = "this";

    fn is_free(_: &Policy) -> bool {
        false
    }
}

impl<R: Right> FromRequestParts<App> for Authorized<R> {
    type Rejection = ApiFault;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> ApiResult<Self> {
        let Some(caller) = Caller::identify(parts, app).await? else {
            if R::is_free(app.policy()) {
                return Ok(Self { account: None, right: PhantomData });
            }
            return Err(ApiFault::unauthorized(format!(
                "{} needs an account; `diode login --server {}` gets a token for the command line",
                R::WHAT,
                app.policy().public_url
            )));
        };
        if R::SCOPE == Scope::Admin && !caller.account.admin {
            return Err(ApiFault::forbidden("only an administrator of this server may do this"));
        }
        if let By::Token(token) = caller.by
            && !token.scopes.contains(&R::SCOPE)
        {
            let scopes: Vec<_> = token.scopes.iter().map(|scope| scope.as_str()).collect();
            return Err(ApiFault::forbidden(format!(
                "the token is for {}, expected one for {}; make another at /account or by `diode login`",
                scopes.join(", "),
                R::SCOPE
            )));
        }
        Ok(Self { account: Some(caller.account), right: PhantomData })
    }
}
