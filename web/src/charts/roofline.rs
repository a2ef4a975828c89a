//! How near to the roofline every problem comes, and who is faster there.

use diode_core::api::{Kernels, ProblemPoint};
use leptos::prelude::*;

use super::look::{Shape, Tone};
use super::plot::{Axis, Line, Mark, Plot};
use super::scatter::Scatter;
use crate::format;

/// Roofline share of the kernels against intensity; the colour is Triton against the library, the shape the dtype.
pub(crate) fn roofline(
    points: &[ProblemPoint],
    kernels: Kernels,
    link: &dyn Fn(&ProblemPoint) -> String,
) -> impl IntoView + use<> {
    let marks: Vec<Mark> = points.iter().filter_map(|point| mark(point, kernels, link)).collect();
    let description = format!(
        "Scatter plot of {}: share of the roofline against arithmetic intensity, coloured by whether Triton or the library is faster. The leaderboard below has the same problems.",
        format::counted(marks.len() as u64, "problem")
    );
    let plot = Plot {
        marks,
        lines: Box::new(|(low, high)| {
            let label = Some("roofline".to_owned());
            vec![Line { points: vec![(low, 100.0), (high, 100.0)], dashed: true, label }]
        }),
        y_reach: vec![100.0],
        ring: None,
        x: Axis { title: "Arithmetic intensity, FLOP/byte", tick: format::tick },
        y: Axis { title: "% of the roofline", tick: format::tick },
        fine: false,
        description,
    };
    view! { <Scatter plot /> }
}

/// `None` if the kernels have no time or no roofline there.
fn mark(point: &ProblemPoint, kernels: Kernels, link: &dyn Fn(&ProblemPoint) -> String) -> Option<Mark> {
    let share = match kernels {
        Kernels::Triton => point.triton_roofline_share,
        Kernels::Library => point.library_roofline_share,
        Kernels::Everything => point.roofline_share,
    }?;
    let time = |us: Option<f64>| us.map_or_else(|| "not timed".to_owned(), format::time);
    let ratio =
        point.triton_over_library.map(|ratio| format!("\nTriton ÷ library {}", format::factor(ratio)));
    Some(Mark {
        x: point.intensity,
        y: share * 100.0,
        tone: Tone::of(point.triton_over_library),
        shape: Shape::of(point.problem.a_dtype),
        text: format!(
            "{}\n{} {}\n{} of the roofline\nTriton {}, library {}{}",
            point.dims,
            point.problem.op,
            point.problem.a_dtype,
            format::percent(share),
            time(point.triton_us),
            time(point.library_us),
            ratio.unwrap_or_default(),
        ),
        href: Some(link(point)),
    })
}
