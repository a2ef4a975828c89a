//! A term or a figure with an explanation.

use leptos::prelude::*;

/// A text that explains itself when it is pressed, by pointer, touch or key. Escape closes the explanation.
/// Screen readers read it with the text, and a pointer that rests on the text shows it, too.
///
/// All texts share one popover, which `boot.js` fills: a board has hundreds of them.
#[component]
pub(crate) fn Explained(
    #[prop(into)] text: String,
    #[prop(into)] why: String,
    /// What is explained, if the text does not say it.
    #[prop(optional, into)]
    about: Option<String>,
) -> impl IntoView {
    view! {
        <button type="button" class="why" popovertarget="explanation" aria-label=about title=why>
            {text}
        </button>
    }
}
