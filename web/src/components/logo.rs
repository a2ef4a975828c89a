//! The logo: a diode, as circuit diagrams draw it.

use leptos::prelude::*;

#[component]
pub(super) fn Logo() -> impl IntoView {
    view! {
        <svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2.25" aria-hidden="true">
            <path d="M7 5.5v13l9.5-6.5z" fill="currentColor" stroke-linejoin="round" />
            <path d="M17.5 5v14M1 12h6M17.5 12H23" />
        </svg>
    }
}
