//! The size of a chart on the page. Charts are drawn at this size, so text and dots are never scaled.

use leptos::html::Div;
use leptos::prelude::*;

/// Follows the width and height of an element. `None` until the element is on the page.
pub(super) fn use_size(element: NodeRef<Div>) -> Signal<Option<(f64, f64)>> {
    let size = RwSignal::new(None);
    let measure = move || {
        // The chart may have left the page by now.
        if let Some(element) = element.try_get_untracked().flatten() {
            let rect = element.get_bounding_client_rect();
            size.try_set(Some((rect.width(), rect.height())));
        }
    };
    Effect::new(move |_| {
        // Measuring at once would force the browser to lay the page out, and would make the drawing part of this turn.
        // At the beginning of a frame, the browser lays the page out in any case, and the frame shows the chart.
        if element.get().is_some() {
            request_animation_frame(measure);
        }
    });
    let listener = window_event_listener(leptos::ev::resize, move |_| measure());
    on_cleanup(move || listener.remove());
    size.into()
}
