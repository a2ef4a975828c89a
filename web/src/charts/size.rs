//! The size of a chart on the page, so that text and dots are never scaled.

use leptos::html::Div;
use leptos::prelude::*;

/// Follows the width and height of an element; `None` until it is on the page.
pub(super) fn use_size(element: NodeRef<Div>) -> Signal<Option<(f64, f64)>> {
    let size = RwSignal::new(None);
    let measure = move || {
        if let Some(element) = element.get_untracked() {
            let rect = element.get_bounding_client_rect();
            size.set(Some((rect.width(), rect.height())));
        }
    };
    Effect::new(move |_| {
        if element.get().is_some() {
            measure();
        }
    });
    let listener = window_event_listener(leptos::ev::resize, move |_| measure());
    on_cleanup(move || listener.remove());
    size.into()
}
