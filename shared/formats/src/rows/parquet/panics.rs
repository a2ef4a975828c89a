//! Catches panics of a library without printing them.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// Runs code that may panic. `None` if it did. The panic prints nothing, because the caller reports
/// the error. All other panics print as usual, also in other threads.
pub(super) fn catch_panic<T>(run: impl FnOnce() -> T) -> Option<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |panic| {
            if !CATCHING.get() {
                before(panic);
            }
        }));
    });
    CATCHING.set(true);
    let result = catch_unwind(AssertUnwindSafe(run));
    CATCHING.set(false);
    result.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_none() {
        assert_eq!(catch_panic(|| 5), Some(5));
        assert_eq!(catch_panic(|| -> u8 { panic!("never seen") }), None);
        assert!(!CATCHING.get());
    }
}
