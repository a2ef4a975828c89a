//! How far a model's predictions agree with what was measured, problem by problem.

use std::sync::Arc;

use leptos::prelude::*;

use super::look::{Shape, Tone};
use super::plot::{Axis, Line, Mark, Plot};
use super::scatter::Scatter;
use crate::format;

/// With this many problems or more, dots are small so that they do not hide each other.
const MANY: usize = 200;

/// The best Triton config of one problem, with its measured and predicted times in microseconds.
pub(crate) struct JudgedProblem {
    pub(crate) name: String,
    pub(crate) measured: f64,
    pub(crate) predicted: f64,
    /// The address of the problem's page.
    pub(crate) href: String,
}

/// A plot of predicted against measured times, with the line on which both are equal.
pub(crate) fn judged(problems: Arc<Vec<JudgedProblem>>) -> impl IntoView {
    let marks = problems.iter().map(|one| Mark {
        x: one.measured,
        y: one.predicted,
        tone: Tone::Plain,
        shape: Shape::Circle,
    });
    let marks = marks.collect();
    let said = Arc::clone(&problems);
    let plot = Plot {
        marks,
        lines: Box::new(|(low, high)| {
            vec![Line { points: vec![(low, low), (high, high)], dashed: true, label: None }]
        }),
        y_reach: Vec::new(),
        ring: None,
        x: Axis { title: "Best measured time", tick: format::time_tick },
        y: Axis { title: "Predicted best time (line: equal)", tick: format::time_tick },
        fine: problems.len() >= MANY,
        description: format!(
            "Scatter plot of the predicted against the measured time of the best Triton config of {}. The table below has the same data.",
            format::counted(problems.len() as u64, "problem")
        ),
        text: Box::new(move |index| {
            let JudgedProblem { name, measured, predicted, .. } = &said[index];
            format!("{name}\nmeasured {}\npredicted {}", format::time(*measured), format::time(*predicted))
        }),
        href: Some(Box::new(move |index| problems[index].href.clone())),
    };
    view! { <Scatter plot /> }
}
