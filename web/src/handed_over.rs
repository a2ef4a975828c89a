//! A list of shapes that one page passes to another, because it is too long for an address.

use std::cell::RefCell;

thread_local! {
    static LIST: RefCell<String> = RefCell::default();
}

pub(crate) fn put(list: String) {
    LIST.set(list);
}

/// Takes the list that was passed on. Empty if there is none.
pub(crate) fn take() -> String {
    LIST.take()
}
