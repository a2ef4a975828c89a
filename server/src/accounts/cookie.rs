//! The cookies that hold secrets.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue};
use headers::{Cookie, HeaderMapExt as _};

use super::Policy;
use super::secret::Secret;
use crate::http::{ApiFault, ApiResult};

/// What a secret in a cookie is for.
pub(super) struct Kind {
    /// Behind TLS the prefix makes browsers take the cookie from this host over TLS alone.
    secure_name: &'static str,
    name: &'static str,
    /// How long the secret works.
    pub(super) lasts: Duration,
}

/// Being signed in.
pub(super) const SESSION: Kind = Kind {
    secure_name: "__Host-diode_session",
    name: "diode_session",
    lasts: Duration::from_secs(30 * 24 * 60 * 60),
};

/// Being on the way to an OpenID Connect provider and back, or about to choose a name after that.
pub(super) const OPENID: Kind =
    Kind { secure_name: "__Host-diode_openid", name: "diode_openid", lasts: Duration::from_secs(10 * 60) };

impl Kind {
    fn name(&self, policy: &Policy) -> &'static str {
        if policy.is_secure() { self.secure_name } else { self.name }
    }

    /// The secret that a browser sent.
    pub(super) fn read(&self, headers: &HeaderMap, policy: &Policy) -> Option<String> {
        headers.typed_get::<Cookie>()?.get(self.name(policy)).map(str::to_owned)
    }

    /// What makes the browser keep a secret.
    pub(super) fn keep(&self, secret: Secret, policy: &Policy) -> ApiResult<HeaderValue> {
        self.set(&secret.into_text(), self.lasts, policy)
    }

    /// What makes the browser forget it.
    pub(super) fn forget(&self, policy: &Policy) -> ApiResult<HeaderValue> {
        self.set("", Duration::ZERO, policy)
    }

    fn set(&self, value: &str, lasts: Duration, policy: &Policy) -> ApiResult<HeaderValue> {
        let secure = if policy.is_secure() { "; Secure" } else { "" };
        // Lax, not strict: a browser that comes back from a provider must send them.
        let cookie = format!(
            "{}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={}{secure}",
            self.name(policy),
            lasts.as_secs()
        );
        HeaderValue::try_from(cookie).map_err(ApiFault::internal)
    }
}
