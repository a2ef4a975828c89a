//! A link that downloads a file and shows the progress.

use diode_api::ApiError;
use leptos::ev::MouseEvent;
use leptos::prelude::*;
use wasm_bindgen::{JsCast as _, JsValue};
use web_sys::{Blob, ProgressEvent, XmlHttpRequest, XmlHttpRequestResponseType};

use crate::files::{Transfer, save};
use crate::format;

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
        (status, body) => leptos::task::spawn_local(async move {
            stage.try_set(Stage::Failed(refusal(status, body).await));
        }),
    }
}

/// The reason for a refusal, in the server's own words if the answer has any.
async fn refusal(status: u16, body: Option<Blob>) -> String {
    let text = match body {
        Some(body) => {
            js_sys::futures::JsFuture::from(body.text()).await.ok().and_then(|text| text.as_string())
        }
        None => None,
    };
    let said = text.and_then(|text| serde_json::from_str::<ApiError>(&text).ok());
    said.map_or_else(|| format!("the server answered with status {status}"), |error| error.message)
}
