//! What is wrong with a predicted time.

use leptos::prelude::*;

/// A star beside the time; pointed at or read aloud, it is a sentence.
#[component]
pub(crate) fn CaveatMark(caveat: String) -> impl IntoView {
    let title = caveat.clone();
    view! { <span class="dim" title=title>" *"<span class="visually-hidden">{caveat}</span></span> }
}
