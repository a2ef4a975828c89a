//! Checking a file before it is sent, in a worker, so that a large one does not hold the page up.

use diode_core::upload_check::Contents;
use js_sys::Reflect;
use wasm_bindgen::closure::Closure;
use wasm_bindgen::{JsCast as _, JsValue};
use web_sys::{File, MessageEvent, Worker, WorkerOptions};

/// Where `web/checker/worker.js` is.
const WORKER: &str = "/checker.js";

/// What is in a file, or why the server would refuse it; `None` if that cannot be said here.
pub(super) type Found = Option<Result<Vec<Contents>, String>>;

/// A check under way; dropping it ends the worker.
pub(super) struct Check {
    worker: Worker,
    _on_end: Closure<dyn FnMut(MessageEvent)>,
}

impl Drop for Check {
    fn drop(&mut self) {
        self.worker.terminate();
    }
}

/// Starts checking, and reports what was found. Fails if the browser cannot do that, and then reports nothing.
pub(super) fn check(file: &File, report: impl Fn(Found) + 'static) -> Result<Check, JsValue> {
    let options = WorkerOptions::new();
    Reflect::set(&options, &"type".into(), &"module".into())?;
    let worker = Worker::new_with_options(WORKER, &options)?;
    // Where the script could not be fetched or run, the event has no data.
    let on_end = Closure::<dyn FnMut(MessageEvent)>::new(move |event: MessageEvent| {
        let json = event.data().as_string().unwrap_or_default();
        report(serde_json::from_str(&json).ok().flatten());
    });
    for event in ["message", "error"] {
        worker.add_event_listener_with_callback(event, on_end.as_ref().unchecked_ref())?;
    }
    worker.post_message(file)?;
    Ok(Check { worker, _on_end: on_end })
}
