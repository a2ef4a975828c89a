//! Files that the reader saves, fetches or sends.

use js_sys::{Array, Function, JsString};
use leptos::prelude::*;
use wasm_bindgen::closure::Closure;
use wasm_bindgen::{JsCast as _, JsValue};
use web_sys::{Blob, BlobPropertyBag, HtmlAnchorElement, ProgressEvent, Url, XmlHttpRequest};

/// Saves a file, as a download.
pub(crate) fn save(name: &str, content: &Blob) -> Result<(), JsValue> {
    let url = Url::create_object_url_with_blob(content)?;
    let link: HtmlAnchorElement = document().create_element("a")?.unchecked_into();
    link.set_href(&url);
    link.set_download(name);
    link.click();
    Url::revoke_object_url(&url)
}

/// Saves a text as a file. If the browser cannot make the file, nothing happens: the page still shows the content.
pub(crate) fn save_text(name: &str, media: &str, text: &str) {
    let options = BlobPropertyBag::new();
    options.set_type(media);
    let parts = Array::of1(&JsString::from(text));
    let _ = Blob::new_with_str_sequence_and_options(&parts, &options).and_then(|blob| save(name, &blob));
}

/// A request under way that reports its progress. The browser's newer interface reports none. Dropping it aborts it.
pub(crate) struct Transfer {
    pub(crate) request: XmlHttpRequest,
    listeners: Vec<Closure<dyn FnMut(ProgressEvent)>>,
}

impl Transfer {
    pub(crate) fn new(method: &str, url: &str) -> Result<Self, JsValue> {
        let request = XmlHttpRequest::new()?;
        request.open(method, url)?;
        Ok(Self { request, listeners: Vec::new() })
    }

    /// Calls `listener` at an event, such as `XmlHttpRequest::set_onloadend`.
    pub(crate) fn on(
        &mut self,
        event: impl FnOnce(&XmlHttpRequest, Option<&Function>),
        listener: impl FnMut(ProgressEvent) + 'static,
    ) {
        let listener = Closure::<dyn FnMut(ProgressEvent)>::new(listener);
        event(&self.request, Some(listener.as_ref().unchecked_ref()));
        self.listeners.push(listener);
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.request.set_onloadend(None);
        // Aborting a request that has ended does nothing.
        let _ = self.request.abort();
    }
}
