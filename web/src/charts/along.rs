//! How a predicted time follows one size.

use diode_core::{Micros, Tflops};
use leptos::prelude::*;

use super::legend::legend;
use super::look::{Shape, Tone};
use super::plot::{Axis, Line, Mark, Plot};
use super::scatter::Scatter;
use crate::format;

/// The prediction for one value of the size.
pub(crate) struct SizePoint {
    pub(crate) size: u64,
    /// Whether this is the size in the problem itself.
    pub(crate) is_own: bool,
    pub(crate) flops: f64,
    pub(crate) config: String,
    /// Predicted time in microseconds.
    pub(crate) triton_us: f64,
    pub(crate) library_us: Option<f64>,
}

/// A plot of the best Triton config and of the library against a size. It shows rates or times.
pub(crate) fn along_size(points: &[SizePoint], size: &'static str, rate: bool) -> impl IntoView + use<> {
    let value = |point: &SizePoint, us: f64| {
        if rate { Tflops::from_work(point.flops, Micros(us)).0 } else { us }
    };
    let mark = |point: &SizePoint, us: f64, tone: Tone, shape: Shape| Mark {
        x: point.size as f64,
        y: value(point, us),
        tone,
        shape,
    };
    let say = |point: &SizePoint, us: f64, what: &str| {
        format!(
            "{size} = {}\n{what}\n{}, {}",
            format::count(point.size),
            format::time(us),
            format::rate_text(Tflops::from_work(point.flops, Micros(us)).0)
        )
    };
    let mut marks: Vec<Mark> =
        points.iter().map(|point| mark(point, point.triton_us, Tone::TritonFar, Shape::Circle)).collect();
    let mut texts: Vec<String> =
        points.iter().map(|point| say(point, point.triton_us, &point.config)).collect();
    let timed = points.iter().filter_map(|point| Some((point, point.library_us?)));
    texts.extend(timed.clone().map(|(point, us)| say(point, us, "library")));
    let ring = points.iter().position(|point| point.is_own);
    let libraries: Vec<Mark> =
        timed.map(|(point, us)| mark(point, us, Tone::LibraryFar, Shape::Square)).collect();
    let places = |marks: &[Mark]| marks.iter().map(|mark| (mark.x, mark.y)).collect::<Vec<_>>();
    let lines = [(places(&marks), false), (places(&libraries), true)];
    let has_library = !libraries.is_empty();
    marks.extend(libraries);
    let unit = if rate { "TFLOP/s" } else { "time" };
    let plot = Plot {
        description: format!(
            "Predicted {unit} of the best Triton config{} against {size}, at {}. The table below has the same numbers.",
            if has_library { " and of the library" } else { "" },
            format::counted(points.len() as u64, "size")
        ),
        marks,
        text: Box::new(move |index| texts[index].clone()),
        href: None,
        lines: Box::new(move |_| {
            let drawn = lines.iter().filter(|(points, _)| !points.is_empty());
            drawn
                .map(|(points, dashed)| Line { points: points.clone(), dashed: *dashed, label: None })
                .collect()
        }),
        y_reach: Vec::new(),
        ring,
        x: Axis { title: size, tick: format::tick },
        y: if rate {
            Axis { title: "Predicted TFLOP/s", tick: format::tick }
        } else {
            Axis { title: "Predicted time", tick: format::time_tick }
        },
        fine: false,
    };
    let entries = [
        (Shape::Circle, Tone::TritonFar, "best Triton config; the ring is the shape above".to_owned()),
        (Shape::Square, Tone::LibraryFar, "library".to_owned()),
    ];
    let entries = entries.into_iter().take(if has_library { 2 } else { 1 }).collect();
    view! {
        <Scatter plot />
        {legend(entries)}
    }
}
