//! Answers of the server, kept in memory by address, so that the back button shows a page at once.

use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use crate::query::went_back;

/// How long an answer may be used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// For a minute, because others contribute all the time. The answer is dropped earlier if this page
    /// changes something on the server.
    Briefly,
    /// As long as the tab is open. The content at such an address never changes.
    Forever,
}

/// A value whose type is erased, so that what handles it is compiled once.
pub(crate) type AnyValue = Arc<dyn Any + Send + Sync>;

const BRIEFLY_MS: f64 = 60_000.0;

struct CachedAnswer {
    stored_at: f64,
    keep: Keep,
    value: AnyValue,
}

impl CachedAnswer {
    fn is_fresh(&self) -> bool {
        let age = js_sys::Date::now() - self.stored_at;
        self.keep == Keep::Forever || age < BRIEFLY_MS || went_back()
    }
}

thread_local! {
    static ANSWERS: RefCell<HashMap<String, CachedAnswer>> = RefCell::default();
}

/// The answer from an address, if it is fresh and of this type.
pub(crate) fn get(path: &str, of: TypeId) -> Option<AnyValue> {
    ANSWERS.with_borrow(|answers| {
        let answer =
            answers.get(path).filter(|answer| answer.is_fresh() && (*answer.value).type_id() == of)?;
        Some(Arc::clone(&answer.value))
    })
}

/// Keeps the answer from an address.
pub(crate) fn put(path: String, keep: Keep, value: AnyValue) {
    let answer = CachedAnswer { stored_at: js_sys::Date::now(), keep, value };
    ANSWERS.with_borrow_mut(|answers| answers.insert(path, answer));
}

/// The pages of a list that the reader has loaded: `first`, and the pages that followed it when the list was
/// shown before.
pub(crate) fn pages_from<T: Send + Sync + 'static>(path: &str, first: Arc<T>) -> Vec<Arc<T>> {
    let known = get(&pages_key(path), TypeId::of::<Vec<Arc<T>>>());
    match known.as_ref().and_then(|pages| pages.downcast_ref::<Vec<Arc<T>>>()) {
        Some(pages) if pages.first().is_some_and(|page| Arc::ptr_eq(page, &first)) => pages.clone(),
        _ => vec![first],
    }
}

/// Keeps the loaded pages of a list.
pub(crate) fn put_pages<T: Send + Sync + 'static>(path: &str, pages: Vec<Arc<T>>) {
    put(pages_key(path), Keep::Briefly, Arc::new(pages));
}

fn pages_key(path: &str) -> String {
    format!("{path}#pages")
}

/// Forgets every answer that can change. Called when this page has changed something on the server.
pub(crate) fn clear() {
    ANSWERS.with_borrow_mut(|answers| answers.retain(|_, answer| answer.keep == Keep::Forever));
}
