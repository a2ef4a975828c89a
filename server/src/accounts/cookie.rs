//! The cookies that hold secrets.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue};
use headers::{Cookie, HeaderMapExt as _};

use super::Policy;
use super::secret::Secret;
use crate::http::{ApiFault, ApiResult};

/// A kind of cookie that holds a secret.
pub(super) struct Kind {
    /// The name over TLS. Its prefix makes browsers accept the cookie only from this host and only over TLS.
    secure_name: &'static str,
    name: &'static str,
    /// How long the secret works.
    pub(super) lasts: Duration,
}

/// The cookie of a browser that is signed in.
pub(super) const SESSION: Kind = Kind {
    secure_name: "__Host-diode_session",
    name: "diode_session",
    lasts: Duration::from_secs(30 * 24 * 60 * 60),
};

/// The cookie of a browser that visits an OpenID Connect provider, or then chooses a name for its account.
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

    /// The header that makes the browser keep a secret.
    pub(super) fn keep(&self, secret: Secret, policy: &Policy) -> ApiResult<HeaderValue> {
        self.set(&secret.into_text(), self.lasts, policy)
    }

    /// The header that makes the browser forget the secret.
    pub(super) fn forget(&self, policy: &Policy) -> ApiResult<HeaderValue> {
        self.set("", Duration::ZERO, policy)
    }

    fn set(&self, value: &str, lasts: Duration, policy: &Policy) -> ApiResult<HeaderValue> {
        let secure = if policy.is_secure() { "; Secure" } else { "" };
        // Lax, not strict: a browser that comes back from a provider must send the cookie.
        let cookie = format!(
            "{}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={}{secure}",
            self.name(policy),
            lasts.as_secs()
        );
        HeaderValue::try_from(cookie).map_err(ApiFault::internal)
    }
}
