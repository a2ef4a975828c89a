//! The bottom of every page.

use leptos::prelude::*;

#[component]
pub(crate) fn Footer() -> impl IntoView {
    view! {
        <footer class="foot">
            <div class="foot-inner">
                <span>"Diode " {env!("CARGO_PKG_VERSION")} " · open measurements of GPU matrix multiplication"</span>
                <a href="/contribute">"Contribute"</a>
                <a href="/terms" rel="external">"Terms"</a>
                <a href="/api/v1/openapi.json" rel="external">"API"</a>
            </div>
        </footer>
    }
}
