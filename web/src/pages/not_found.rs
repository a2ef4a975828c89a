//! The page for unknown addresses, with links to existing pages.

use leptos::prelude::*;
use leptos_router::hooks::use_location;

use crate::components::use_title;

#[component]
pub(crate) fn NotFoundPage() -> impl IntoView {
    use_title(|| "Not found".to_owned());
    let path = use_location().pathname;
    view! {
        <main class="page">
            <div>
                <h1>"There is no such page"</h1>
                <p class="lede">"There is nothing at " <code>{move || path.get()}</code> ". You may be looking for:"</p>
            </div>
            <div class="cards">
                <a class="card card-link" href="/">
                    <h2>"Overview"</h2>
                    <p class="hint">"Every kind of hardware and its leaderboard."</p>
                </a>
                <a class="card card-link" href="/predict">
                    <h2>"Predict"</h2>
                    <p class="hint">"The best configs for a shape you type in."</p>
                </a>
                <a class="card card-link" href="/models">
                    <h2>"Models"</h2>
                    <p class="hint">"Download a model, or train one on the data."</p>
                </a>
            </div>
        </main>
    }
}
