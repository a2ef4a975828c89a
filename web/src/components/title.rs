//! The title of the page in tabs, bookmarks and history.

use leptos::prelude::*;

/// Follows what the page shows.
pub(crate) fn title(text: impl Fn() -> String + 'static) {
    Effect::new(move |_| document().set_title(&format!("{} · Diode", text())));
}
