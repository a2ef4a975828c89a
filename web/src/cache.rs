//! Answers of the server, kept in memory by address while they are fresh, so
//! that going back to a page shows it at once.

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// An older answer is fetched again: others contribute all the time.
const FRESH_MS: f64 = 60_000.0;

struct Entry {
    stored_at: f64,
    value: Arc<dyn Any + Send + Sync>,
}

thread_local! {
    static ENTRIES: RefCell<HashMap<String, Entry>> = RefCell::default();
}

/// The answer from an address, if there is a fresh one of this type.
pub(crate) fn get<T: Send + Sync + 'static>(path: &str) -> Option<Arc<T>> {
    ENTRIES.with_borrow(|entries| {
        let entry = entries.get(path).filter(|entry| js_sys::Date::now() - entry.stored_at < FRESH_MS)?;
        Arc::clone(&entry.value).downcast().ok()
    })
}

/// Keeps the answer from an address.
pub(crate) fn put<T: Send + Sync + 'static>(path: String, value: Arc<T>) {
    let entry = Entry { stored_at: js_sys::Date::now(), value };
    ENTRIES.with_borrow_mut(|entries| entries.insert(path, entry));
}

/// Forgets everything: something on the server has changed by our doing.
pub(crate) fn clear() {
    ENTRIES.with_borrow_mut(HashMap::clear);
}
