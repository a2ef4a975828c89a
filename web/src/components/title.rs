//! The title of the page in tabs, bookmarks and history.

use leptos::prelude::*;

/// Keeps the page's title equal to `text`.
pub(crate) fn use_title(text: impl Fn() -> String + 'static) {
    Effect::new(move |_| document().set_title(&format!("{} · Diode", text())));
}
