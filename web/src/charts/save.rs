//! Saves a chart as a file: an SVG document of its own, with all colours and fonts written out, or a picture of it.

use leptos::html::Div;
use leptos::prelude::*;
use wasm_bindgen::closure::Closure;
use wasm_bindgen::{JsCast as _, JsValue};
use web_sys::{
    Blob, CanvasRenderingContext2d, DomRect, Element, HtmlCanvasElement, HtmlImageElement, NodeList,
    XmlSerializer,
};

use crate::files::{save, save_text};

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
            save_text(&format!("{}.svg", file_name(&drawing)), "image/svg+xml", &written.text);
        }
    };
    let png = move |_| {
        if let Some(drawing) = drawing() {
            let _ = save_picture(&drawing);
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

fn save_picture(drawing: &Element) -> Result<(), JsValue> {
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
            let _ = save(&name, &blob);
        }
    });
    canvas.to_blob(done.unchecked_ref())
}

/// The properties of a drawing that style sheets set.
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

/// Pixels between the drawing and its legend, and between a sign and its text.
const GAP: f64 = 8.0;
const BESIDE: f64 = 4.0;

/// The side of the box in which a legend's signs are drawn.
const SIGN: f64 = 10.0;

/// An SVG document and its size in pixels.
pub(super) struct Written {
    pub(super) text: String,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Written {
    /// Makes the document from a drawing on the page.
    pub(super) fn of(drawing: &Element) -> Result<Self, JsValue> {
        let copy: Element = drawing.clone_node_with_deep(true)?.unchecked_into();
        let (ours, theirs) =
            (elements(&copy.query_selector_all("*")?), elements(&drawing.query_selector_all("*")?));
        for (own, drawn) in ours.iter().zip(&theirs) {
            write_style(own, drawn)?;
        }
        let rect = drawing.get_bounding_client_rect();
        let (mut width, mut height) = (rect.width(), rect.height());
        let around = drawing.closest("section, .card")?;
        if let Some(legend) =
            around.map(|around| around.query_selector(".legends, .legend")).transpose()?.flatten()
        {
            let place = legend.get_bounding_client_rect();
            for entry in elements(&legend.query_selector_all("li")?) {
                write_entry(&copy, &entry, &place, height + GAP)?;
            }
            height += GAP + place.height();
            width = width.max(place.width());
        }
        copy.set_attribute("xmlns", SVG)?;
        copy.set_attribute("width", &width.to_string())?;
        copy.set_attribute("height", &height.to_string())?;
        let fill = background(drawing)?;
        let paper = element("rect", &[("width", "100%"), ("height", "100%"), ("fill", &fill)])?;
        copy.insert_before(&paper, copy.first_child().as_ref())?;
        Ok(Self { text: XmlSerializer::new()?.serialize_to_string(&copy)?, width, height })
    }
}

const SVG: &str = "http://www.w3.org/2000/svg";

fn element(name: &str, attributes: &[(&str, &str)]) -> Result<Element, JsValue> {
    let element = document().create_element_ns(Some(SVG), name)?;
    for (name, value) in attributes {
        element.set_attribute(name, value)?;
    }
    Ok(element)
}

/// Writes the style that the drawn element has on the page into its copy.
fn write_style(own: &Element, drawn: &Element) -> Result<(), JsValue> {
    let Some(style) = window().get_computed_style(drawn)? else { return Ok(()) };
    let mut text = own.get_attribute("style").unwrap_or_default();
    for name in STYLES {
        text += &format!(";{name}:{}", style.get_property_value(name)?);
    }
    own.set_attribute("style", &text)?;
    own.remove_attribute("class")
}

/// Draws one line of a legend as it stands on the page. Places are relative to the legend's corner, which lies
/// `top` pixels below the document's.
fn write_entry(copy: &Element, entry: &Element, legend: &DomRect, top: f64) -> Result<(), JsValue> {
    let (Some(box_of_sign), Some(drawn)) = (entry.query_selector("svg")?, entry.query_selector("path")?)
    else {
        return Ok(());
    };
    let place = box_of_sign.get_bounding_client_rect();
    let (x, y) = (place.left() - legend.left(), place.top() - legend.top() + top);
    let scale = place.width() / SIGN;
    let sign: Element = drawn.clone_node()?.unchecked_into();
    write_style(&sign, &drawn)?;
    sign.set_attribute("transform", &format!("translate({x:.1} {y:.1}) scale({scale:.3})"))?;
    copy.append_child(&sign)?;
    let (x, y) = (x + place.width() + BESIDE, y + place.height() / 2.0);
    let words = element(
        "text",
        &[("x", &format!("{x:.1}")), ("y", &format!("{y:.1}")), ("dominant-baseline", "central")],
    )?;
    if let Some(style) = window().get_computed_style(entry)? {
        let of = |name: &str| style.get_property_value(name);
        let look = format!(
            "fill:{};font-family:{};font-size:{}",
            of("color")?,
            of("font-family")?,
            of("font-size")?
        );
        words.set_attribute("style", &look)?;
    }
    words.set_text_content(entry.text_content().as_deref().map(str::trim));
    copy.append_child(&words)?;
    Ok(())
}

fn elements(list: &NodeList) -> Vec<Element> {
    (0..list.length()).filter_map(|place| list.get(place)?.dyn_into().ok()).collect()
}

/// The background colour of the drawing: the nearest one around it that is not transparent.
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
