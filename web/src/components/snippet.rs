//! Text to copy: commands, code, and how to cite a model or a dataset.

use std::time::Duration;

use diode_api::bibtex::Cited;
use js_sys::futures::JsFuture;
use leptos::html::Pre;
use leptos::prelude::*;
use leptos::task::spawn_local;

use crate::query::server_address;

/// How long the button says that the text was copied.
const ACKNOWLEDGED: Duration = Duration::from_millis(2500);

/// A command or a piece of code, with a button that copies it.
#[component]
pub(crate) fn Snippet(#[prop(into)] text: String) -> impl IntoView {
    let said = RwSignal::new(OFFER);
    let shown = text.clone();
    let place = NodeRef::<Pre>::new();
    let copy = move |_| {
        let text = text.clone();
        spawn_local(async move {
            let copied = write_to_clipboard(&text).await;
            if !copied && let Some(place) = place.try_get_untracked().flatten() {
                select(&place);
            }
            if said.try_set(if copied { "Copied" } else { "Press Ctrl+C" }).is_none() {
                let offer_again = move || {
                    said.try_set(OFFER);
                };
                set_timeout(offer_again, ACKNOWLEDGED);
            }
        });
    };
    view! {
        <div class="snippet">
            <pre tabindex="0" node_ref=place><code>{shown}</code></pre>
            <button type="button" class="button small copy" on:click=copy aria-live="polite">
                {move || said.get()}
            </button>
        </div>
    }
}

const OFFER: &str = "Copy";

/// Copies a text to the clipboard. Returns `false` if the reader does not allow it, or if the page does not
/// come by HTTPS and so has no clipboard.
async fn write_to_clipboard(text: &str) -> bool {
    let clipboard = window().navigator().clipboard();
    !clipboard.is_undefined() && JsFuture::from(clipboard.write_text(text)).await.is_ok()
}

/// Selects the text of an element, so that one key copies it.
fn select(element: &web_sys::Node) {
    if let Ok(Some(selection)) = window().get_selection() {
        // An element that has left the page cannot be selected, which does no harm.
        let _ = selection.select_all_children(element);
    }
}

/// A BibTeX entry.
#[component]
pub(crate) fn Citation(
    /// The entry's key.
    key: String,
    title: String,
    /// The date in RFC 3339.
    made_at: String,
    /// The path of the page that is cited.
    path: String,
    note: String,
) -> impl IntoView {
    let url = format!("{}{path}", server_address());
    let entry = Cited { key: &key, title: &title, made_at: &made_at, url: &url, note: &note }.bibtex();
    view! { <Snippet text=entry.trim_end() /> }
}
