//! Files that the page makes for the reader.

use leptos::prelude::*;
use wasm_bindgen::{JsCast as _, JsValue};
use web_sys::{Blob, HtmlAnchorElement, Url};

/// Saves a file, as a download.
pub(crate) fn give(name: &str, content: &Blob) -> Result<(), JsValue> {
    let url = Url::create_object_url_with_blob(content)?;
    let link: HtmlAnchorElement = document().create_element("a")?.unchecked_into();
    link.set_href(&url);
    link.set_download(name);
    link.click();
    Url::revoke_object_url(&url)
}
