//! How far a model's predictions agree with what was measured.

use std::sync::Arc;

use leptos::prelude::*;

use crate::charts::plot::{Axis, Mark, Plot, Shape, Tone, dashed};
use crate::charts::scatter::Scatter;
use crate::format;

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
