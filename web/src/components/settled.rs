//! A signal that follows its source once the reader has stopped typing.

use std::time::Duration;

use leptos::leptos_dom::helpers::TimeoutHandle;
use leptos::prelude::*;

/// The time after the last change until the server is asked, so that no request is sent while the reader
/// types.
const SETTLED: Duration = Duration::from_millis(800);

/// Follows `wanted` with a delay. A change from or to `None` has no delay.
pub(super) fn settled<T: Clone + PartialEq + Send + Sync + 'static>(
    wanted: Memo<Option<T>>,
) -> RwSignal<Option<T>> {
    let settled = RwSignal::new(wanted.get_untracked());
    let pending = StoredValue::new(None::<TimeoutHandle>);
    let cancel = move || {
        if let Some(Some(handle)) = pending.try_update_value(Option::take) {
            handle.clear();
        }
    };
    on_cleanup(cancel);
    Effect::new(move |_| {
        let wanted = wanted.get();
        cancel();
        if settled.with_untracked(Option::is_none) || wanted.is_none() {
            settled.set(wanted);
            return;
        }
        let follow = move || {
            settled.try_set(wanted.clone());
        };
        pending.set_value(set_timeout_with_handle(follow, SETTLED).ok());
    });
    settled
}
