//! Points of problems: how near to the roofline each problem comes, and whether Triton or the library is faster; and how far a model's predictions agree
//! with what was measured.

use std::sync::Arc;

use diode_api::Kernels;
use diode_core::ids::ProblemId;
use diode_core::{DType, Method, Op};
use leptos::prelude::*;
use serde::Deserialize;

use crate::charts::plot::{Axis, Line, Mark, Plot, Shape, Tone, dashed};
use crate::charts::scatter::Scatter;
use crate::format;

/// The fields of `diode_api::ProblemPoint` that the chart needs. There are thousands of points, so the other
/// fields are skipped.
#[derive(Deserialize)]
pub(crate) struct Point {
    pub(crate) problem_id: ProblemId,
    pub(crate) problem: PointProblem,
    pub(crate) method: Method,
    dims: String,
    intensity: f64,
    roofline_share: Option<f64>,
    triton_us: Option<f64>,
    triton_roofline_share: Option<f64>,
    library_us: Option<f64>,
    library_roofline_share: Option<f64>,
    pub(crate) triton_over_library: Option<f64>,
}

#[derive(Deserialize)]
pub(crate) struct PointProblem {
    op: Op,
    pub(crate) a_dtype: DType,
}

/// Gives the address of a problem's page.
type PageOf = Box<dyn Fn(&Point) -> String + Send + Sync>;

/// A plot of the kernels' roofline share against intensity. The colour compares Triton with the library, the shape
/// shows the dtype.
pub(crate) fn roofline(points: &Arc<Vec<Point>>, kernels: Kernels, page_of: PageOf) -> impl IntoView + use<> {
    let drawn = points.iter().enumerate().filter_map(|(place, point)| Some((place, mark(point, kernels)?)));
    let (places, marks): (Vec<usize>, Vec<Mark>) = drawn.unzip();
    let description = format!(
        "Scatter plot of {}: share of the roofline against arithmetic intensity, coloured by whether Triton or the library is faster. The leaderboard below has the same problems.",
        format::counted(marks.len() as u64, "problem")
    );
    let places = Arc::new(places);
    let (said, said_at) = (Arc::clone(points), Arc::clone(&places));
    let linked = Arc::clone(points);
    let axes = ["Arithmetic intensity, FLOP/byte", "% of the roofline"];
    let axes = axes.map(|title| Axis { title, tick: format::tick });
    let say = move |index: usize| text(&said[said_at[index]], kernels);
    let plot = Plot {
        href: Some(Box::new(move |index| page_of(&linked[places[index]]))),
        lines: Box::new(|(low, high)| {
            let label = Some("roofline".to_owned());
            vec![Line { label, ..dashed(vec![(low, 100.0), (high, 100.0)]) }]
        }),
        from_zero: true,
        y_reach: vec![100.0],
        ..Plot::new(marks, say, axes, description)
    };
    view! { <Scatter plot /> }
}

fn share(point: &Point, kernels: Kernels) -> Option<f64> {
    match kernels {
        Kernels::Triton => point.triton_roofline_share,
        Kernels::Library => point.library_roofline_share,
        Kernels::Everything => point.roofline_share,
    }
}

/// `None` if the problem has no time of the kernels or no roofline.
fn mark(point: &Point, kernels: Kernels) -> Option<Mark> {
    Some(Mark {
        x: point.intensity,
        y: share(point, kernels)? * 100.0,
        tone: Tone::of(point.triton_over_library),
        shape: Shape::of(point.problem.a_dtype),
    })
}

fn text(point: &Point, kernels: Kernels) -> String {
    let time = |us: Option<f64>| us.map_or_else(|| "not timed".to_owned(), format::time);
    let ratio = point.triton_over_library.map(|ratio| format!("\nTriton {}", format::against(ratio)));
    format!(
        "{}\n{} {}\n{} of the roofline\nTriton {}, library {}{}",
        point.dims,
        point.problem.op,
        point.problem.a_dtype,
        format::percent(share(point, kernels).unwrap_or_default()),
        time(point.triton_us),
        time(point.library_us),
        ratio.unwrap_or_default(),
    )
}

/// With this many dots or more, dots are small so that they do not hide each other.
const MANY: usize = 200;

/// A config or a problem with its measured and predicted times in microseconds.
pub(crate) struct Agreement {
    pub(crate) name: String,
    pub(crate) measured: f64,
    pub(crate) predicted: f64,
    /// The address of the problem's page. Empty for a config.
    pub(crate) href: String,
}

/// A plot of predicted against measured times of a problem's configs, with the line on which both are equal and a ring
/// around one config.
pub(crate) fn of_configs(configs: Vec<Agreement>, ring: Option<usize>) -> impl IntoView {
    let description = format!(
        "Scatter plot of predicted against measured time of {}. The table below has the same data.",
        format::counted(configs.len() as u64, "config")
    );
    let plot = plot(&Arc::new(configs), ["Measured time", "Predicted time (line: equal)"], description);
    view! { <Scatter plot=Plot { ring, ..plot } /> }
}

/// The same for the best Triton config of each problem.
pub(crate) fn of_problems(problems: &Arc<Vec<Agreement>>) -> impl IntoView + use<> {
    let description = format!(
        "Scatter plot of the predicted against the measured time of the best Triton config of {}. The table below has the same data.",
        format::counted(problems.len() as u64, "problem")
    );
    let titles = ["Best measured time", "Predicted best time (line: equal)"];
    let linked = Arc::clone(problems);
    let href = move |index: usize| linked[index].href.clone();
    view! { <Scatter plot=Plot { href: Some(Box::new(href)), ..plot(problems, titles, description) } /> }
}

fn plot(both: &Arc<Vec<Agreement>>, [x, y]: [&'static str; 2], description: String) -> Plot {
    let mark =
        |one: &Agreement| Mark { x: one.measured, y: one.predicted, tone: Tone::Plain, shape: Shape::Circle };
    let (marks, said) = (both.iter().map(mark).collect(), Arc::clone(both));
    let text = move |index: usize| {
        let Agreement { name, measured, predicted, .. } = &said[index];
        format!("{name}\nmeasured {}\npredicted {}", format::time(*measured), format::time(*predicted))
    };
    let axes = [x, y].map(|title| Axis { title, tick: format::time_tick });
    Plot {
        lines: Box::new(|(low, high)| vec![dashed(vec![(low, low), (high, high)])]),
        fine: both.len() >= MANY,
        ..Plot::new(marks, text, axes, description)
    }
}
