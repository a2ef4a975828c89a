//! The keyboard's focus and the page's content.

use leptos::prelude::*;
use leptos_router::hooks::use_location;
use wasm_bindgen::JsCast as _;
use web_sys::{FocusOptions, HtmlElement};

/// The first element on every page that the keyboard reaches. It skips the links to other pages and leads
/// to the content.
#[component]
pub(super) fn SkipButton() -> impl IntoView {
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
