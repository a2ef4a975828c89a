//! What the reader takes along: text to copy (commands, code, how to cite a model or a dataset), and links that download
//! a file and show the progress.

use std::time::Duration;

use diode_api::ApiError;
use diode_api::bibtex::Cited;
use js_sys::futures::JsFuture;
use leptos::ev::MouseEvent;
use leptos::html::Pre;
use leptos::prelude::*;
use leptos::task::spawn_local;
use wasm_bindgen::{JsCast as _, JsValue};
use web_sys::{Blob, ProgressEvent, XmlHttpRequest, XmlHttpRequestResponseType};

use crate::files::{Transfer, save};
use crate::format;
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

#[derive(Debug, Clone, PartialEq)]
enum Stage {
    Offered,
    /// The request was sent. The answer may take a while, because the server may have to make the file.
    Asked,
    /// The number of bytes received, and the total if the server named it.
    Arriving(f64, Option<f64>),
    Saved(f64),
    Failed(String),
}

/// A link to a file. A press fetches the file and shows the progress.
#[component]
pub(crate) fn Download(
    #[prop(into)] href: Signal<String>,
    /// The name to save the file under.
    #[prop(into)]
    name: String,
    #[prop(into)] text: String,
    #[prop(optional)] class: Option<&'static str>,
) -> impl IntoView {
    let stage = RwSignal::new(Stage::Offered);
    let transfer = StoredValue::new_local(None::<Transfer>);
    on_cleanup(move || {
        transfer.try_update_value(Option::take);
    });
    let file = name.clone();
    let press = move |event: MouseEvent| {
        // With these modifiers, the browser handles links itself.
        if event.ctrl_key() || event.meta_key() || event.shift_key() {
            return;
        }
        event.prevent_default();
        if matches!(stage.get_untracked(), Stage::Asked | Stage::Arriving(..)) {
            return;
        }
        stage.set(Stage::Asked);
        match start(&href.get_untracked(), file.clone(), stage) {
            Ok(started) => transfer.set_value(Some(started)),
            Err(error) => stage.set(Stage::Failed(format!("the browser could not fetch it: {error:?}"))),
        }
    };
    let bytes = |count: f64| format::bytes(count as u64);
    let said = move || match stage.get() {
        Stage::Offered => String::new(),
        Stage::Asked => "waiting for the server …".to_owned(),
        Stage::Arriving(here, None) => format!("{} …", bytes(here)),
        Stage::Arriving(here, Some(all)) => format!("{} of {}", bytes(here), bytes(all)),
        Stage::Saved(all) => format!("saved, {}", bytes(all)),
        Stage::Failed(why) => why,
    };
    // Screen readers say the text once the download has ended, not with each piece that arrives.
    let arrives = move || matches!(stage.get(), Stage::Arriving(..)).to_string();
    view! {
        <span class="download">
            <a class=class.unwrap_or("chip") href=move || href.get() rel="external" download=name on:click=press>{text}</a>
            <span class="hint" role="status" aria-busy=arrives class:error-text=move || matches!(stage.get(), Stage::Failed(_))>{said}</span>
        </span>
    }
}

fn start(href: &str, name: String, stage: RwSignal<Stage>) -> Result<Transfer, JsValue> {
    let mut transfer = Transfer::new("GET", href)?;
    let request = transfer.request.clone();
    request.set_response_type(XmlHttpRequestResponseType::Blob);
    let arriving = request.clone();
    let on_progress = move |event: ProgressEvent| {
        let total = event.length_computable().then(|| event.total()).or_else(|| told_length(&arriving));
        stage.try_set(Stage::Arriving(event.loaded(), total));
    };
    transfer.on(|request, progress| request.set_onprogress(progress), on_progress);
    let ended = request.clone();
    transfer.on(|request, end| request.set_onloadend(end), move |_| end(&ended, &name, stage));
    request.send()?;
    Ok(transfer)
}

/// The length of the file before the server compresses it on its way, if the server names it.
fn told_length(request: &XmlHttpRequest) -> Option<f64> {
    request.get_response_header("diode-bytes").ok()??.parse().ok()
}

fn end(request: &XmlHttpRequest, name: &str, stage: RwSignal<Stage>) {
    let body = request.response().ok().and_then(|body| body.dyn_into::<Blob>().ok());
    let status = request.status().unwrap_or(0);
    match (status, body) {
        (200..=299, Some(body)) => {
            let saved = save(name, &body).map(|()| Stage::Saved(body.size()));
            stage.try_set(
                saved.unwrap_or_else(|error| Stage::Failed(format!("it could not be saved: {error:?}"))),
            );
        }
        (0, _) => {
            stage.try_set(Stage::Failed("the connection broke; try again".to_owned()));
        }
        (status, body) => spawn_local(async move {
            stage.try_set(Stage::Failed(refusal(status, body).await));
        }),
    }
}

/// The reason for a refusal, in the server's own words if the answer has any.
async fn refusal(status: u16, body: Option<Blob>) -> String {
    let text = match body {
        Some(body) => JsFuture::from(body.text()).await.ok().and_then(|text| text.as_string()),
        None => None,
    };
    let said = text.and_then(|text| serde_json::from_str::<ApiError>(&text).ok());
    said.map_or_else(|| format!("the server answered with status {status}"), |error| error.message)
}
