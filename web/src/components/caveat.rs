//! A mark for predicted times that the reader should doubt.

use leptos::prelude::*;

use super::explained::Explained;

/// A star beside the time, which explains itself.
#[component]
pub(crate) fn CaveatMark(caveat: String) -> impl IntoView {
    view! { <Explained text="*" why=caveat about="caveat" /> }
}
