//! Sends a file and reports progress. `XmlHttpRequest` is used because the browser's newer interface
//! reports none.

use diode_api::{Receipt, TERMS_HEADER};
use wasm_bindgen::JsCast as _;
use wasm_bindgen::closure::Closure;
use web_sys::{Event, File, ProgressEvent, XmlHttpRequest};

use super::Stage;
use crate::api;

type Listener<E> = Closure<dyn FnMut(E)>;

/// An upload under way. Dropping it aborts it.
pub(super) struct Upload {
    request: XmlHttpRequest,
    _on_progress: Listener<ProgressEvent>,
    _on_sent: Listener<Event>,
    _on_end: Listener<Event>,
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.request.set_onloadend(None);
        // Aborting an upload that has ended does nothing.
        let _ = self.request.abort();
    }
}

/// Starts an upload and reports every stage. Returns `None` if the browser refuses; this is
/// reported, too.
///
/// `agreed` is the version of the terms that the visitor agrees to.
pub(super) fn send(
    file: &File,
    agreed: Option<u32>,
    report: impl Fn(Stage) + Copy + 'static,
) -> Option<Upload> {
    match start(file, agreed, report) {
        Ok(upload) => {
            report(Stage::Sending(0.0));
            Some(upload)
        }
        Err(error) => {
            report(Stage::Refused(format!("the browser could not send it: {error:?}")));
            None
        }
    }
}

fn start(
    file: &File,
    agreed: Option<u32>,
    report: impl Fn(Stage) + Copy + 'static,
) -> Result<Upload, wasm_bindgen::JsValue> {
    let request = XmlHttpRequest::new()?;
    request.open("POST", &api::url("/uploads"))?;
    request.set_request_header("content-type", "application/octet-stream")?;
    if let Some(version) = agreed {
        request.set_request_header(TERMS_HEADER, &version.to_string())?;
    }
    let on_progress = Listener::<ProgressEvent>::new(move |event: ProgressEvent| {
        if event.total() > 0.0 {
            report(Stage::Sending(event.loaded() / event.total()));
        }
    });
    let on_sent = Listener::<Event>::new(move |_: Event| report(Stage::Storing));
    let on_end = {
        let request = request.clone();
        Listener::<Event>::new(move |_: Event| report(outcome(&request)))
    };
    let upload = request.upload()?;
    upload.set_onprogress(Some(on_progress.as_ref().unchecked_ref()));
    upload.set_onload(Some(on_sent.as_ref().unchecked_ref()));
    request.set_onloadend(Some(on_end.as_ref().unchecked_ref()));
    request.send_with_opt_blob(Some(file))?;
    Ok(Upload { request, _on_progress: on_progress, _on_sent: on_sent, _on_end: on_end })
}

/// The stage that follows from the server's answer.
fn outcome(request: &XmlHttpRequest) -> Stage {
    let status = request.status().unwrap_or(0);
    let body = request.response_text().ok().flatten().unwrap_or_default();
    match status {
        0 => unanswered("the connection broke before the server had answered"),
        200..=299 => match serde_json::from_str::<Receipt>(&body) {
            Ok(receipt) => Stage::Stored(Box::new(receipt)),
            Err(error) => unanswered(&format!("the server's receipt could not be read: {error}")),
        },
        _ => Stage::Refused(api::refusal(status, &body).to_string()),
    }
}

fn unanswered(why: &str) -> Stage {
    Stage::Unanswered(format!("{why}; send it again: a file that is stored already is not stored twice"))
}
