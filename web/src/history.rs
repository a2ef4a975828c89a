//! The back button shows a page as the reader left it: with the same rows, scrolled to the same place.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use leptos::ev::{keydown, pointerdown, popstate, touchstart, wheel};
use leptos::prelude::*;

/// The most frames until a page must have its old height.
const PATIENCE: u32 = 600;

thread_local! {
    /// How far each address was scrolled when the reader left it.
    static PLACES: RefCell<HashMap<String, f64>> = RefCell::default();
    static WENT_BACK: Cell<bool> = const { Cell::new(false) };
    /// Counts the reader's acts. Once the reader scrolls or presses something, the page must not be
    /// scrolled for them.
    static ACTS: Cell<u32> = const { Cell::new(0) };
}

/// Whether the reader came to this page by the browser's back or forward button.
pub(crate) fn went_back() -> bool {
    WENT_BACK.get()
}

/// Remembers and restores scroll positions as long as the dashboard runs.
pub(crate) fn remember_places() {
    let leave = || {
        let window = window();
        WENT_BACK.set(false);
        acted();
        if let (Ok(address), Ok(place)) = (window.location().href(), window.scroll_y()) {
            PLACES.with_borrow_mut(|places| places.insert(address, place));
        }
    };
    // Every way to open another page begins with a press of a pointer or a key.
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

/// Scrolls to a place as soon as the page is high enough.
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
