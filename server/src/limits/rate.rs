use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const STATE: HeaderName = HeaderName::from_static("ratelimit");

/// How often something may be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate {
    /// The name of what is counted, in the plural.
    pub(crate) name: &'static str,
    pub(crate) quota: u64,
    pub(crate) window: Duration,
}

impl Rate {
    pub(super) fn window_millis(&self) -> i64 {
        self.window.as_millis() as i64
    }

    /// The window in words.
    pub(super) fn within(&self) -> String {
        match self.window.as_secs() / 60 {
            1 => "a minute".to_owned(),
            minutes => format!("{minutes} minutes"),
        }
    }
}

/// How much of a rate is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Left {
    pub(super) rate: Rate,
    pub(super) left: u64,
    /// Seconds until the window ends.
    pub(super) reset: u32,
}

impl Left {
    pub(crate) fn reset(&self) -> u32 {
        self.reset
    }

    /// Adds the limit and what is left to the headers, after the IETF's
    /// draft-ietf-httpapi-ratelimit-headers-10.
    pub(crate) fn tell(&self, headers: &mut HeaderMap) {
        let Self { rate: Rate { name, quota, window }, left, reset } = self;
        let fields = [
            (POLICY, format!("\"{name}\";q={quota};w={}", window.as_secs())),
            (STATE, format!("\"{name}\";r={left};t={reset}")),
        ];
        for (field, value) in fields {
            // Names and numbers are always a valid header.
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(field, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_those_of_the_draft() {
        let rate = Rate { name: "uploads", quota: 100, window: Duration::from_secs(60) };
        let mut headers = HeaderMap::new();
        Left { rate, left: 7, reset: 42 }.tell(&mut headers);
        assert_eq!(headers["RateLimit-Policy"], "\"uploads\";q=100;w=60");
        assert_eq!(headers["RateLimit"], "\"uploads\";r=7;t=42");
    }
}
