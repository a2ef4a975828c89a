//! Going back shows a page as it was left: with the same rows, scrolled to the same place.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use leptos::ev::{keydown, pointerdown, popstate, touchstart, wheel};
use leptos::prelude::*;

/// Frames within which a page must be as high as it was.
const PATIENCE: u32 = 600;

thread_local! {
    /// How far each address was scrolled when the reader left it.
    static PLACES: RefCell<HashMap<String, f64>> = RefCell::default();
    static WENT_BACK: Cell<bool> = const { Cell::new(false) };
    /// Counts what the reader does: whoever scrolls or presses something is not moved any more.
    static ACTS: Cell<u32> = const { Cell::new(0) };
}

/// Whether the page was reached by the browser's own buttons.
pub(crate) fn went_back() -> bool {
    WENT_BACK.get()
}

/// Remembers and restores places as long as the dashboard runs.
pub(crate) fn remember_places() {
    let leave = || {
        let window = window();
        WENT_BACK.set(false);
        acted();
        if let (Ok(address), Ok(place)) = (window.location().href(), window.scroll_y()) {
            PLACES.with_borrow_mut(|places| places.insert(address, place));
        }
    };
    // What opens another page begins with one of these.
    window_event_listener(pointerdown, move |_| leave());
    window_event_listener(keydown, move |_| leave());
    window_event_listener(wheel, |_| acted());
    window_event_listener(touchstart, |_| acted());
    window_event_listener(popstate, move |_| {
        WENT_BACK.set(true);
        let address = window().location().href().unwrap_or_default();
        if let Some(place) = PLACES.with_borrow(|places| places.get(&address).copied()) {
            restore(address, place, ACTS.get(), PATIENCE);
        }
    });
}

/// Scrolls as soon as the page is high enough.
fn restore(address: String, place: f64, acts: u32, patience: u32) {
    request_animation_frame(move || {
        let window = window();
        let here = window.location().href().is_ok_and(|here| here == address);
        if !here || acts != ACTS.get() || patience == 0 {
            return;
        }
        window.scroll_to_with_x_and_y(0.0, place);
        if window.scroll_y().is_ok_and(|now| (now - place).abs() > 1.0) {
            restore(address, place, acts, patience - 1);
        }
    });
}

fn acted() {
    ACTS.set(ACTS.get().wrapping_add(1));
}
