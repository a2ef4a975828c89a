//! How near to the roofline each problem comes, and whether Triton or the library is faster.

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
    let ratio =
        point.triton_over_library.map(|ratio| format!("\nTriton ÷ library {}", format::factor(ratio)));
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
