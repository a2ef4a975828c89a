//! Checks a file before it is sent. A worker (`web/checker`) does this, so a large file does not block the page.

use diode_api::upload_check::Contents;
use wasm_bindgen::JsValue;
use web_sys::File;

use crate::worker::Worker;

/// The contents of a file, or why the server would refuse it. `None` if only the server can tell.
pub(super) type Found = Option<Result<Vec<Contents>, String>>;

/// Starts the check and reports its result. Dropping the worker ends the check. Fails, and reports nothing, if the
/// browser has no workers.
pub(super) fn check(file: &File, report: impl Fn(Found) + 'static) -> Result<Worker, JsValue> {
    let worker = Worker::start("checker", move |said| {
        report(said.and_then(|json| serde_json::from_str(&json).ok()).flatten());
    })?;
    worker.tell(file)?;
    Ok(worker)
}
