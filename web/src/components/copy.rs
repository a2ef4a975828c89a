//! A command with a button that copies it.

use std::time::Duration;

use leptos::prelude::*;

/// How long the button shows that the text was copied.
const ACKNOWLEDGED: Duration = Duration::from_millis(1500);

/// A command or a piece of code.
#[component]
pub(crate) fn Snippet(#[prop(into)] text: String) -> impl IntoView {
    let copied = RwSignal::new(false);
    let shown = text.clone();
    let copy = move |_| {
        // The promise is not awaited: a browser that forbids copying lets the
        // reader select the text all the same.
        let _promise = window().navigator().clipboard().write_text(&text);
        copied.set(true);
        set_timeout(
            move || {
                copied.try_set(false);
            },
            ACKNOWLEDGED,
        );
    };
    view! {
        <div class="snippet">
            <pre tabindex="0"><code>{shown}</code></pre>
            <button type="button" class="button small copy" on:click=copy aria-live="polite">
                {move || if copied.get() { "Copied" } else { "Copy" }}
            </button>
        </div>
    }
}
