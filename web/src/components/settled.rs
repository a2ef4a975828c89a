//! A signal that waits until its reader has stopped typing.

use std::time::Duration;

use leptos::leptos_dom::helpers::TimeoutHandle;
use leptos::prelude::*;

/// The server is asked this long after the last change: nothing is asked while somebody types.
const SETTLED: Duration = Duration::from_millis(800);

/// Follows what is wanted: at once from nothing, later from something.
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
