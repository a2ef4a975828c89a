//! How far a model's predictions agree with what was measured.

use leptos::prelude::*;

use super::look::{Shape, Tone};
use super::plot::{Axis, Line, Mark, Plot};
use super::scatter::Scatter;
use crate::format;

/// With this many dots or more, dots are small so that they do not hide each other.
const MANY: usize = 200;

/// A config with its measured and predicted times in microseconds.
pub(crate) struct Agreement {
    pub(crate) label: String,
    pub(crate) measured: f64,
    pub(crate) predicted: f64,
}

/// A plot of predicted against measured times, with the line on which both are equal and a ring around one
/// config.
pub(crate) fn agreement(configs: Vec<Agreement>, ring: Option<usize>) -> impl IntoView {
    let marks = configs.iter().map(|config| Mark {
        x: config.measured,
        y: config.predicted,
        tone: Tone::Plain,
        shape: Shape::Circle,
    });
    let marks = marks.collect();
    let description = format!(
        "Scatter plot of predicted against measured time of {}. The table below has the same data.",
        format::counted(configs.len() as u64, "config")
    );
    let plot = Plot {
        ring,
        marks,
        fine: configs.len() >= MANY,
        text: Box::new(move |index| {
            let Agreement { label, measured, predicted } = &configs[index];
            format!("{label}\nmeasured {}\npredicted {}", format::time(*measured), format::time(*predicted))
        }),
        href: None,
        lines: Box::new(|(low, high)| {
            vec![Line { points: vec![(low, low), (high, high)], dashed: true, label: None }]
        }),
        y_reach: Vec::new(),
        x: Axis { title: "Measured time", tick: format::time_tick },
        y: Axis { title: "Predicted time (line: equal)", tick: format::time_tick },
        description,
    };
    view! { <Scatter plot /> }
}
