//! The top of every page.

use leptos::prelude::*;
use leptos_router::components::A;

use super::logo::logo;
use super::theme::theme_button;

pub(crate) fn header() -> impl IntoView {
    view! {
        <header class="top">
            <div class="top-inner">
                <a class="brand" href="/" aria-label="Diode, overview">{logo()} "Diode"</a>
                <nav class="nav" aria-label="Pages">
                    <A href="/" exact=true>"Overview"</A>
                    <A href="/predict">"Predict"</A>
                    <A href="/models">"Models"</A>
                    <A href="/contribute">"Contribute"</A>
                </nav>
                {theme_button()}
            </div>
        </header>
    }
}
