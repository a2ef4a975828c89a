//! A mark for predicted times that the reader should doubt.

use leptos::prelude::*;

/// A star beside the time. Its sentence is shown to the pointer and read by screen readers.
#[component]
pub(crate) fn CaveatMark(caveat: String) -> impl IntoView {
    let title = caveat.clone();
    view! { <span class="dim" title=title>" *"<span class="visually-hidden">{caveat}</span></span> }
}
