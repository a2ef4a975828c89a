//! The top of every page.

use leptos::prelude::*;
use leptos_router::components::A;

use super::account::AccountLink;
use super::content::SkipButton;
use super::logo::Logo;
use super::theme::ThemeButton;

#[component]
pub(crate) fn Header() -> impl IntoView {
    view! {
        <header class="top">
            <SkipButton />
            <div class="top-inner">
                <a class="brand" href="/" aria-label="Diode, overview"><Logo /> "Diode"</a>
                <nav class="nav" aria-label="Pages">
                    <A href="/" exact=true>"Overview"</A>
                    <A href="/predict">"Predict"</A>
                    <A href="/compare">"Compare"</A>
                    <A href="/models">"Models"</A>
                    <A href="/datasets">"Datasets"</A>
                    <A href="/contribute">"Contribute"</A>
                </nav>
                <AccountLink />
                <ThemeButton />
            </div>
        </header>
    }
}
