//! Takes the place of `provider` in a program that was built without OpenID Connect.

use anyhow::bail;

use super::keys::Keys;
use crate::http::ApiResult;
use crate::settings::OpenId;
use crate::store::Identity;

/// No value of this type exists.
pub enum Provider {}

/// Has the same fields as with OpenID Connect. No value of it is ever made.
pub(super) struct Vouched {
    pub(super) identity: Identity,
    pub(super) suggestion: Option<String>,
}

impl Provider {
    pub fn new(settings: &OpenId, _: &str) -> anyhow::Result<Self> {
        bail!(
            "openid issuer: got `{}`, but this diode-server was built without the feature `openid`; build it \
             with `cargo build --package diode-server`, or remove the setting",
            settings.issuer
        );
    }

    pub(crate) fn label(&self) -> &str {
        match *self {}
    }

    pub(crate) fn issuer(&self) -> &str {
        match *self {}
    }

    pub(super) async fn address(&self, _: Keys) -> ApiResult<String> {
        match *self {}
    }

    pub(super) async fn vouched(&self, _: String, _: Keys) -> ApiResult<Vouched> {
        match *self {}
    }
}
