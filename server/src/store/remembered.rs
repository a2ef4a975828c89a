//! Results that were computed from a hardware's entries, and that are valid until these change. Each process
//! has its own results. The revision in the database shows whether a result is still valid.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

/// How many results are kept at most.
const MAX_KEPT: usize = 4096;

/// Results by key, each with the revision of the entries that it was computed from.
pub(crate) struct Remembered<K, V>(Mutex<HashMap<K, (i64, V)>>);

impl<K, V> Default for Remembered<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, V: Clone> Remembered<K, V> {
    pub(crate) fn get(&self, key: &K, revision: i64) -> Option<V> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(key).filter(|(of, _)| *of == revision).map(|(_, value)| value.clone())
    }

    pub(crate) fn put(&self, key: K, revision: i64, value: V) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MAX_KEPT && !kept.contains_key(&key) {
            kept.clear();
        }
        kept.insert(key, (revision, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_holds_for_its_revision_only() {
        let memory = Remembered::default();
        memory.put("count", 1, 7);
        assert_eq!(memory.get(&"count", 1), Some(7));
        assert_eq!(memory.get(&"count", 2), None);
        assert_eq!(memory.get(&"other", 1), None);
    }
}
