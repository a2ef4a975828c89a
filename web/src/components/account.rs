//! The reader's account, in the header.

use leptos::prelude::*;
use leptos::task::spawn_local;
use leptos_router::hooks::use_location;
use serde::Deserialize;

use crate::api;
use crate::query::link;

/// The fields of `WhoAsks` that the link needs. The whole type would make the first load larger.
#[derive(Deserialize)]
struct WhoAsks {
    account: Option<Account>,
}

#[derive(Deserialize)]
struct Account {
    name: String,
}

/// A link to the reader's account, with its name, or to the page where the reader signs in. Both pages are the
/// server's own.
#[component]
pub(super) fn AccountLink() -> impl IntoView {
    let name = RwSignal::new(String::new());
    spawn_local(async move {
        // Without an answer, the link leads to signing in.
        if let Ok(who) = api::get::<WhoAsks>("/session").await {
            name.set(who.account.map(|account| account.name).unwrap_or_default());
        }
    });
    let here = use_location();
    let href = move || {
        if name.with(|name| !name.is_empty()) {
            return "/account".to_owned();
        }
        let query = here.search.get();
        let question = if query.is_empty() { "" } else { "?" };
        link("/sign-in", [("next", format!("{}{question}{query}", here.pathname.get()))])
    };
    let text = move || name.with(|name| if name.is_empty() { "Sign in".to_owned() } else { name.clone() });
    view! { <a class="account" href=href rel="external">{text}</a> }
}
