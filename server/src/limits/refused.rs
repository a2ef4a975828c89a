use std::sync::Arc;

use quick_cache::sync::Cache;

use crate::store::Now;

/// How many refused subjects are remembered. There are more only if many clients attack together. Then the
/// database is asked again for some of them.
const REMEMBERED: usize = 10_000;

/// The subjects that were refused, and until when. So a flood of requests that would be refused does not reach
/// the database.
#[derive(Clone)]
pub(crate) struct Refused(Arc<Cache<String, i64>>);

impl Default for Refused {
    fn default() -> Self {
        Self(Arc::new(Cache::new(REMEMBERED)))
    }
}

impl Refused {
    /// When the window of a refused subject ends, in milliseconds since 1970; `None` if the subject may try.
    pub(super) fn until(&self, subject: &str, now: Now) -> Option<i64> {
        self.0.get(subject).filter(|until| *until > now.millis())
    }

    pub(super) fn note(&self, subject: &str, until: i64) {
        self.0.insert(subject.to_owned(), until);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn who_was_refused_may_try_again_when_the_window_ends() {
        let (refused, now) = (Refused::default(), Now::read());
        refused.note("ada", now.lease_end(Duration::from_secs(1)));
        assert!(refused.until("ada", now).is_some() && refused.until("bob", now).is_none());
        assert_eq!(refused.until("ada", Now(now.0 + Duration::from_secs(1))), None);
    }
}
