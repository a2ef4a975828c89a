//! Curves: how a predicted time follows one size, and how the loss fell in a training.

use diode_core::{Micros, Tflops};
use leptos::prelude::*;

use crate::charts::plot::{Axis, Line, Mark, Plot, Shape, Tone, legend};
use crate::charts::scatter::Scatter;
use crate::format;

/// Points joined by a line.
struct Series {
    tone: Tone,
    shape: Shape,
    dashed: bool,
    /// Each point with the text of its tooltip.
    points: Vec<((f64, f64), String)>,
}

fn plot(all: &[Series], axes: [Axis; 2], description: String) -> Plot {
    let marks = all.iter().flat_map(|series| {
        let &Series { tone, shape, .. } = series;
        series.points.iter().map(move |&((x, y), _)| Mark { x, y, tone, shape })
    });
    let marks = marks.collect();
    let texts: Vec<String> =
        all.iter().flat_map(|series| series.points.iter().map(|(_, text)| text.clone())).collect();
    let line = |series: &Series| Line {
        points: series.points.iter().map(|(point, _)| *point).collect(),
        dashed: series.dashed,
        label: None,
    };
    let lines: Vec<Line> = all.iter().filter(|series| !series.points.is_empty()).map(line).collect();
    Plot {
        lines: Box::new(move |_| lines.clone()),
        ..Plot::new(marks, move |index| texts[index].clone(), axes, description)
    }
}

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
    let placed = |point: &SizePoint, us: f64, what: &str| {
        let tflops = Tflops::from_work(point.flops, Micros(us)).0;
        let (number, time) = (format::count(point.size), format::time(us));
        let text = format!("{size} = {number}\n{what}\n{time}, {}", format::rate_text(tflops));
        ((point.size as f64, if rate { tflops } else { us }), text)
    };
    let triton = Series {
        tone: Tone::TritonFar,
        shape: Shape::Circle,
        dashed: false,
        points: points.iter().map(|point| placed(point, point.triton_us, &point.config)).collect(),
    };
    let timed = points.iter().filter_map(|point| Some(placed(point, point.library_us?, "library")));
    let library =
        Series { tone: Tone::LibraryFar, shape: Shape::Square, dashed: true, points: timed.collect() };
    let has_library = !library.points.is_empty();
    let unit = if rate { "TFLOP/s" } else { "time" };
    let description = format!(
        "Predicted {unit} of the best Triton config{} against {size}, at {}. The table below has the same numbers.",
        if has_library { " and of the library" } else { "" },
        format::counted(points.len() as u64, "size")
    );
    let y = if rate {
        Axis { title: "Predicted TFLOP/s", tick: format::tick }
    } else {
        Axis { title: "Predicted time", tick: format::time_tick }
    };
    let axes = [Axis { title: size, tick: format::tick }, y];
    let ring = points.iter().position(|point| point.is_own);
    let plot = Plot { ring, ..plot(&[triton, library], axes, description) };
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

/// The known epochs of one network, in order.
pub(crate) struct Curve {
    pub(crate) phase: String,
    /// Whether the model's file has this network.
    pub(crate) is_final: bool,
    /// Epoch and loss.
    pub(crate) points: Vec<(u32, f64)>,
}

/// A plot of the loss against the epoch, for every trained network.
pub(crate) fn training(curves: &[Curve]) -> impl IntoView + use<> {
    let series = |curve: &Curve| {
        let (tone, shape) =
            if curve.is_final { (Tone::TritonFar, Shape::Circle) } else { (Tone::Tie, Shape::Square) };
        // A logarithmic axis shows only these.
        let shown = curve.points.iter().filter(|(epoch, loss)| *epoch > 0 && *loss > 0.0);
        let placed = |&(epoch, loss): &(u32, f64)| {
            let text = format!("{}\nepoch {epoch}\nloss {}", curve.phase, format::loss(loss));
            ((f64::from(epoch), loss), text)
        };
        Series { tone, shape, dashed: !curve.is_final, points: shown.map(placed).collect() }
    };
    let all: Vec<Series> = curves.iter().map(series).collect();
    let description = format!(
        "Loss against epoch of {}. The table below has the same numbers.",
        format::counted(curves.len() as u64, "network")
    );
    let axes = ["Epoch", "Loss"].map(|title| Axis { title, tick: format::tick });
    let plot = plot(&all, axes, description);
    let has_folds = curves.iter().any(|curve| !curve.is_final);
    let judges = "networks that judge it: each learnt without a part of the problems";
    let entries = [
        (Shape::Circle, Tone::TritonFar, "the network in the file".to_owned()),
        (Shape::Square, Tone::Tie, judges.to_owned()),
    ];
    let entries = entries.into_iter().take(if has_folds { 2 } else { 1 }).collect();
    view! {
        <Scatter plot />
        {legend(entries)}
    }
}
