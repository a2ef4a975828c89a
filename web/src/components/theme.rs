//! The light or dark theme: the system's, until the reader chooses one. The choice is stored, and `boot.js`
//! applies it before the first paint.

use leptos::prelude::*;

/// The key under which the theme is stored. `boot.js` reads it, too.
const KEY: &str = "diode-theme";

#[component]
pub(super) fn ThemeButton() -> impl IntoView {
    let dark = RwSignal::new(is_dark());
    let switch = move |_| {
        dark.update(|dark| *dark = !*dark);
        set(if dark.get_untracked() { "dark" } else { "light" });
    };
    view! {
        <button
            type="button"
            class="icon-button"
            on:click=switch
            aria-label=move || if dark.get() { "Use the light theme" } else { "Use the dark theme" }
            title=move || if dark.get() { "Light theme" } else { "Dark theme" }
        >
            <svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2" aria-hidden="true">
                <circle cx="12" cy="12" r="8.5" />
                <path d="M12 3.5a8.5 8.5 0 0 1 0 17z" fill="currentColor" />
            </svg>
        </button>
    }
}

fn is_dark() -> bool {
    match document().document_element().and_then(|root| root.get_attribute("data-theme")) {
        Some(chosen) => chosen == "dark",
        None => window()
            .match_media("(prefers-color-scheme: dark)")
            .is_ok_and(|query| query.is_some_and(|query| query.matches())),
    }
}

/// Sets the theme and stores it. Without storage, the choice lasts until the page is left.
fn set(theme: &str) {
    if let Some(root) = document().document_element() {
        let _ = root.set_attribute("data-theme", theme);
    }
    if let Ok(Some(storage)) = window().local_storage() {
        let _ = storage.set_item(KEY, theme);
    }
}
