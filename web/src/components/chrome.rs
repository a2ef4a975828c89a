//! What is around every page: the header with the reader's account and the theme, the footer, the title in tabs and
//! history, and the keyboard's focus.

use diode_api::{PAGES, SitePage};
use js_sys::Reflect;
use leptos::prelude::*;
use leptos::task::spawn_local;
use leptos_router::components::A;
use leptos_router::hooks::use_location;
use serde::Deserialize;
use wasm_bindgen::JsCast as _;
use web_sys::{FocusOptions, HtmlElement};

use crate::api;
use crate::components::BarEverywhere;
use crate::query::link;

#[component]
pub(crate) fn Header() -> impl IntoView {
    let links = PAGES.iter().filter(|page| !page.link.is_empty());
    view! {
        <header class="top">
            <SkipButton />
            <div class="top-inner">
                <a class="brand" href="/" aria-label="Diode, overview"><Logo /> "Diode"</a>
                <nav class="nav" aria-label="Pages">
                    {links.map(|page| view! { <A href=page.path exact=page.path == "/">{page.link}</A> }).collect_view()}
                </nav>
                <AccountLink />
                <BarEverywhere />
                <ThemeButton />
            </div>
        </header>
    }
}

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
fn AccountLink() -> impl IntoView {
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

/// The first element on every page that the keyboard reaches. It skips the links to other pages and leads
/// to the content.
#[component]
fn SkipButton() -> impl IntoView {
    view! {
        <button type="button" class="button skip" on:click=move |_| focus_content(true)>
            "Skip to the content"
        </button>
    }
}

/// The most frames until the page that was left has disappeared.
const PATIENCE: u32 = 120;

/// Moves the focus to the content of each page that opens. The element that had the focus is on the old
/// page, and disappears with it.
#[component]
pub(crate) fn FollowPage() -> impl IntoView {
    let path = use_location().pathname;
    Effect::new(move |before: Option<String>| {
        let path = path.get();
        if before.is_some_and(|before| before != path) {
            focus_when_lost(PATIENCE);
        }
        path
    });
}

fn focus_when_lost(patience: u32) {
    request_animation_frame(move || {
        let is_lost = document().active_element().is_none_or(|element| element.tag_name() == "BODY");
        if is_lost {
            focus_content(false);
        } else if patience > 0 {
            focus_when_lost(patience - 1);
        }
    });
}

fn focus_content(scroll: bool) {
    let content = document().query_selector("main").ok().flatten();
    let Some(content) = content.and_then(|element| element.dyn_into::<HtmlElement>().ok()) else { return };
    content.set_tab_index(-1);
    let options = FocusOptions::new();
    options.set_prevent_scroll(!scroll);
    // Focusing cannot fail for an element on the page.
    let _ = content.focus_with_options(&options);
}

#[component]
fn Logo() -> impl IntoView {
    view! {
        <svg viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2.25" aria-hidden="true">
            <path d="M7 5.5v13l9.5-6.5z" fill="currentColor" stroke-linejoin="round" />
            <path d="M17.5 5v14M1 12h6M17.5 12H23" />
        </svg>
    }
}

/// The cookie with the theme, for a year. The server reads it, so that a page has its colours from the start.
const COOKIE: &str = "path=/; max-age=31536000; samesite=lax";

#[component]
fn ThemeButton() -> impl IntoView {
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

/// Sets the theme and stores it. Without cookies, the choice lasts until the page is left.
fn set(theme: &str) {
    if let Some(root) = document().document_element() {
        let _ = root.set_attribute("data-theme", theme);
    }
    let _ = Reflect::set(&document(), &"cookie".into(), &format!("diode-theme={theme}; {COOKIE}").into());
}

/// What a page without a subject begins with. Its title is set, too.
pub(crate) fn page_head(path: &str) -> impl IntoView + use<> {
    let title = page(path).title;
    use_title(move || title.to_owned());
    page_heading(path)
}

/// The same without the title.
pub(crate) fn page_heading(path: &str) -> impl IntoView + use<> {
    let SitePage { heading, about, .. } = page(path);
    view! { <div><h1>{heading}</h1><p class="lede">{about}</p></div> }
}

fn page(path: &str) -> SitePage {
    PAGES.into_iter().find(|page| page.path == path).unwrap_or(PAGES[0])
}

/// Keeps the page's title equal to `text`.
pub(crate) fn use_title(text: impl Fn() -> String + 'static) {
    Effect::new(move |_| document().set_title(&format!("{} · Diode", text())));
}
