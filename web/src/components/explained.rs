//! A term or a figure with an explanation.

use std::sync::atomic::{AtomicU32, Ordering};

use leptos::prelude::*;

/// Numbers the explanations of the page, because a button names its explanation by id.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A text that explains itself when it is pressed, by pointer, touch or key. Escape closes the explanation.
/// Screen readers read it with the text, and a pointer that rests on the text shows it, too.
#[component]
pub(crate) fn Explained(
    #[prop(into)] text: String,
    #[prop(into)] why: String,
    /// What is explained, if the text does not say it.
    #[prop(optional, into)]
    about: Option<String>,
) -> impl IntoView {
    let id = format!("why-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    view! {
        <button
            type="button"
            class="why"
            popovertarget=id.clone()
            aria-label=about
            aria-describedby=id.clone()
            title=why.clone()
        >
            {text}
        </button>
        <span class="explanation" popover="auto" id=id>{why}</span>
    }
}
