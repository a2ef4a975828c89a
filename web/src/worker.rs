//! A worker: a program that runs beside the dashboard, in a thread of its own (`web/worker`).

use js_sys::Reflect;
use leptos::prelude::window;
use wasm_bindgen::closure::Closure;
use wasm_bindgen::{JsCast as _, JsValue};
use web_sys::{MessageEvent, WorkerOptions};

/// Dropping the worker ends its program at once.
pub(crate) struct Worker {
    worker: web_sys::Worker,
    _on_event: Closure<dyn FnMut(MessageEvent)>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.worker.set_onmessage(None);
        self.worker.set_onerror(None);
        self.worker.terminate();
    }
}

impl Worker {
    /// Starts the program. `report` gets each text that the program posts. It gets `None` for any
    /// other message, or if the program could not be fetched or run. Fails if the browser allows no workers.
    pub(crate) fn start(report: impl Fn(Option<String>) + 'static) -> Result<Self, JsValue> {
        let address = Reflect::get(&window(), &"worker".into())?.as_string().unwrap_or_default();
        let options = WorkerOptions::new();
        Reflect::set(&options, &"type".into(), &"module".into())?;
        let worker = web_sys::Worker::new_with_options(&address, &options)?;
        // If the script could not be fetched or run, the event has no data.
        let on_event = Closure::<dyn FnMut(MessageEvent)>::new(move |event: MessageEvent| {
            report(event.data().as_string());
        });
        worker.set_onmessage(Some(on_event.as_ref().unchecked_ref()));
        worker.set_onerror(Some(on_event.as_ref().unchecked_ref()));
        Ok(Self { worker, _on_event: on_event })
    }

    pub(crate) fn tell(&self, what: &JsValue) -> Result<(), JsValue> {
        self.worker.post_message(what)
    }
}
