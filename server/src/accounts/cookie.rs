//! The cookie that holds a session's secret.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue};
use headers::{Cookie, HeaderMapExt as _};

use super::Policy;
use super::secret::Secret;
use crate::http::{ApiFault, ApiResult};

/// How long a session lasts.
pub(super) const LASTS: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Behind TLS the prefix makes browsers take it from this host over TLS alone.
fn name(policy: &Policy) -> &'static str {
    if policy.is_secure() { "__Host-diode_session" } else { "diode_session" }
}

/// The secret that a browser sent.
pub(super) fn read(headers: &HeaderMap, policy: &Policy) -> Option<String> {
    headers.typed_get::<Cookie>()?.get(name(policy)).map(str::to_owned)
}

/// What makes the browser keep a secret.
pub(super) fn keep(secret: Secret, policy: &Policy) -> ApiResult<HeaderValue> {
    set(&secret.into_text(), LASTS, policy)
}

/// What makes the browser forget it.
pub(super) fn forget(policy: &Policy) -> ApiResult<HeaderValue> {
    set("", Duration::ZERO, policy)
}

fn set(value: &str, lasts: Duration, policy: &Policy) -> ApiResult<HeaderValue> {
    let secure = if policy.is_secure() { "; Secure" } else { "" };
    let cookie = format!(
        "{}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={}{secure}",
        name(policy),
        lasts.as_secs()
    );
    HeaderValue::try_from(cookie).map_err(ApiFault::internal)
}
