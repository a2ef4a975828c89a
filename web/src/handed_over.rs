//! A list of shapes that one page hands to another: too long for an address.

use std::cell::RefCell;

thread_local! {
    static LIST: RefCell<String> = RefCell::default();
}

pub(crate) fn put(list: String) {
    LIST.set(list);
}

/// The list that waits, once; empty if there is none.
pub(crate) fn take() -> String {
    LIST.take()
}
