//! A chart as a file: what is drawn on the page, with its colours and fonts written out.

use js_sys::{Array, JsString};
use leptos::html::Div;
use leptos::prelude::*;
use wasm_bindgen::closure::Closure;
use wasm_bindgen::{JsCast as _, JsValue};
use web_sys::{
    Blob, CanvasRenderingContext2d, Element, HtmlCanvasElement, HtmlImageElement, NodeList, XmlSerializer,
};

use crate::files::give;

/// What style sheets say of drawings, by name.
const STYLES: [&str; 13] = [
    "fill",
    "fill-opacity",
    "stroke",
    "stroke-width",
    "stroke-dasharray",
    "stroke-linecap",
    "paint-order",
    "opacity",
    "font-family",
    "font-size",
    "font-weight",
    "shape-rendering",
    "visibility",
];

/// Pixels of a picture for each of the page.
const SCALE: f64 = 2.0;

/// Buttons that save the drawing inside of an element.
#[component]
pub(crate) fn SaveChart(chart: NodeRef<Div>) -> impl IntoView {
    let drawing = move || chart.get_untracked()?.query_selector("svg").ok().flatten();
    // A browser that makes no file shows nothing; the chart stays on the page.
    let svg = move |_| {
        if let Some(Ok(text)) = drawing().map(|drawing| written(&drawing)) {
            let _ = blob(&text).and_then(|blob| give(&file_name("svg"), &blob));
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

/// The page's title as the name of a file: `nvidia-h200.svg`.
fn file_name(ending: &str) -> String {
    let title = document().title();
    let title = title.strip_suffix(" · Diode").unwrap_or(&title).to_lowercase();
    let words: Vec<&str> =
        title.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    format!("{}.{ending}", words.join("-"))
}

fn blob(text: &str) -> Result<Blob, JsValue> {
    let options = web_sys::BlobPropertyBag::new();
    options.set_type("image/svg+xml");
    Blob::new_with_str_sequence_and_options(&Array::of1(&JsString::from(text)), &options)
}

/// The drawing as a document of its own.
fn written(drawing: &Element) -> Result<String, JsValue> {
    let copy: Element = drawing.clone_node_with_deep(true)?.unchecked_into();
    let rect = drawing.get_bounding_client_rect();
    copy.set_attribute("xmlns", "http://www.w3.org/2000/svg")?;
    copy.set_attribute("width", &rect.width().to_string())?;
    copy.set_attribute("height", &rect.height().to_string())?;
    let (ours, theirs) =
        (elements(&copy.query_selector_all("*")?), elements(&drawing.query_selector_all("*")?));
    for (own, drawn) in ours.iter().zip(&theirs) {
        let Some(style) = window().get_computed_style(drawn)? else { continue };
        let mut text = own.get_attribute("style").unwrap_or_default();
        for name in STYLES {
            text += &format!(";{name}:{}", style.get_property_value(name)?);
        }
        own.set_attribute("style", &text)?;
        own.remove_attribute("class")?;
    }
    let paper = document().create_element_ns(Some("http://www.w3.org/2000/svg"), "rect")?;
    for (name, value) in [("width", "100%"), ("height", "100%"), ("fill", &background(drawing)?)] {
        paper.set_attribute(name, value)?;
    }
    copy.insert_before(&paper, copy.first_child().as_ref())?;
    XmlSerializer::new()?.serialize_to_string(&copy)
}

fn elements(list: &NodeList) -> Vec<Element> {
    (0..list.length()).filter_map(|place| list.get(place)?.dyn_into().ok()).collect()
}

/// The colour that the drawing stands on: the nearest that is not transparent.
fn background(drawing: &Element) -> Result<String, JsValue> {
    let mut place = drawing.parent_element();
    while let Some(element) = place {
        if let Some(style) = window().get_computed_style(&element)? {
            let colour = style.get_property_value("background-color")?;
            if !matches!(colour.as_str(), "" | "transparent" | "rgba(0, 0, 0, 0)") {
                return Ok(colour);
            }
        }
        place = element.parent_element();
    }
    Ok("white".to_owned())
}

fn give_picture(drawing: &Element) -> Result<(), JsValue> {
    let text = written(drawing)?;
    let rect = drawing.get_bounding_client_rect();
    let canvas: HtmlCanvasElement = document().create_element("canvas")?.unchecked_into();
    canvas.set_width((rect.width() * SCALE) as u32);
    canvas.set_height((rect.height() * SCALE) as u32);
    let image = HtmlImageElement::new()?;
    let draw = {
        let image = image.clone();
        Closure::once_into_js(move || {
            let _ = draw(&image, &canvas);
        })
    };
    image.set_onload(Some(draw.unchecked_ref()));
    let address = String::from(js_sys::encode_uri_component(&text));
    // The dashboard's rules allow pictures from such addresses, not from blobs.
    image.set_src(&format!("data:image/svg+xml;charset=utf-8,{address}"));
    Ok(())
}

fn draw(image: &HtmlImageElement, canvas: &HtmlCanvasElement) -> Result<(), JsValue> {
    let context = canvas.get_context("2d")?.ok_or(JsValue::NULL)?;
    let context: CanvasRenderingContext2d = context.unchecked_into();
    context.scale(SCALE, SCALE)?;
    context.draw_image_with_html_image_element(image, 0.0, 0.0)?;
    let name = file_name("png");
    let done = Closure::once_into_js(move |blob: Option<Blob>| {
        if let Some(blob) = blob {
            let _ = give(&name, &blob);
        }
    });
    canvas.to_blob(done.unchecked_ref())
}
