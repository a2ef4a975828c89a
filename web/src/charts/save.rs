//! Buttons that save a chart as a file.

use js_sys::{Array, JsString};
use leptos::html::Div;
use leptos::prelude::*;
use wasm_bindgen::closure::Closure;
use wasm_bindgen::{JsCast as _, JsValue};
use web_sys::{Blob, CanvasRenderingContext2d, Element, HtmlCanvasElement, HtmlImageElement};

use super::written::Written;
use crate::files::give;

/// The number of pixels in a saved picture for each pixel on the page.
const SCALE: f64 = 2.0;

/// Buttons that save the drawing inside an element.
#[component]
pub(crate) fn SaveChart(chart: NodeRef<Div>) -> impl IntoView {
    let drawing = move || chart.get_untracked()?.query_selector("svg").ok().flatten();
    // If the browser cannot make the file, the button does nothing.
    let svg = move |_| {
        let Some(drawing) = drawing() else { return };
        if let Ok(written) = Written::of(&drawing) {
            let name = format!("{}.svg", file_name(&drawing));
            let _ = blob(&written.text).and_then(|blob| give(&name, &blob));
        }
    };
    let png = move |_| {
        if let Some(drawing) = drawing() {
            let _ = give_picture(&drawing);
        }
    };
    view! {
        <button type="button" class="button small" aria-label="Save the chart as SVG" on:click=svg>"SVG"</button>
        <button type="button" class="button small" aria-label="Save the chart as PNG" on:click=png>"PNG"</button>
    }
}

/// The name of a file without its ending, made from the titles of the page and of the chart's section:
/// `nvidia-h200-share-of-the-roofline`.
fn file_name(drawing: &Element) -> String {
    let title = document().title();
    let title = title.strip_suffix(" · Diode").unwrap_or(&title);
    let section = drawing.closest("section").ok().flatten();
    let heading = section.as_ref().and_then(|section| section.query_selector("h2, h3").ok().flatten());
    let heading = heading.and_then(|heading| heading.text_content());
    let heading = heading.or_else(|| section?.get_attribute("aria-label")).unwrap_or_default();
    let both = format!("{title} {heading}").to_lowercase();
    let words: Vec<&str> =
        both.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    words.join("-")
}

fn blob(text: &str) -> Result<Blob, JsValue> {
    let options = web_sys::BlobPropertyBag::new();
    options.set_type("image/svg+xml");
    Blob::new_with_str_sequence_and_options(&Array::of1(&JsString::from(text)), &options)
}

fn give_picture(drawing: &Element) -> Result<(), JsValue> {
    let Written { text, width, height } = Written::of(drawing)?;
    let canvas: HtmlCanvasElement = document().create_element("canvas")?.unchecked_into();
    canvas.set_width((width * SCALE) as u32);
    canvas.set_height((height * SCALE) as u32);
    let image = HtmlImageElement::new()?;
    let name = format!("{}.png", file_name(drawing));
    let draw = {
        let image = image.clone();
        Closure::once_into_js(move || {
            let _ = draw(&image, &canvas, name);
        })
    };
    image.set_onload(Some(draw.unchecked_ref()));
    let address = String::from(js_sys::encode_uri_component(&text));
    // The dashboard's content policy allows pictures from data addresses, but not from blobs.
    image.set_src(&format!("data:image/svg+xml;charset=utf-8,{address}"));
    Ok(())
}

fn draw(image: &HtmlImageElement, canvas: &HtmlCanvasElement, name: String) -> Result<(), JsValue> {
    let context = canvas.get_context("2d")?.ok_or(JsValue::NULL)?;
    let context: CanvasRenderingContext2d = context.unchecked_into();
    context.scale(SCALE, SCALE)?;
    context.draw_image_with_html_image_element(image, 0.0, 0.0)?;
    let done = Closure::once_into_js(move |blob: Option<Blob>| {
        if let Some(blob) = blob {
            let _ = give(&name, &blob);
        }
    });
    canvas.to_blob(done.unchecked_ref())
}
