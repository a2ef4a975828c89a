//! Checking a file before it is sent, in a worker (`web/checker`), so that a large one does not hold the page up.

use diode_core::upload_check::Contents;
use wasm_bindgen::JsValue;
use web_sys::File;

use crate::worker::Worker;

/// What is in a file, or why the server would refuse it; `None` if that cannot be said here.
pub(super) type Found = Option<Result<Vec<Contents>, String>>;

/// Starts checking, and reports what was found; dropping the worker ends it. Fails if the browser cannot do that, and
/// then reports nothing.
pub(super) fn check(file: &File, report: impl Fn(Found) + 'static) -> Result<Worker, JsValue> {
    let worker = Worker::start("checker", move |said| {
        report(said.and_then(|json| serde_json::from_str(&json).ok()).flatten());
    })?;
    worker.tell(file)?;
    Ok(worker)
}
