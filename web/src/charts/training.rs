//! The loss of a training, epoch by epoch.

use leptos::prelude::*;

use super::legend::legend;
use super::look::{Shape, Tone};
use super::plot::{Axis, Line, Mark, Plot};
use super::scatter::Scatter;
use crate::format;

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
    let looks = |curve: &Curve| {
        if curve.is_final { (Tone::TritonFar, Shape::Circle) } else { (Tone::Tie, Shape::Square) }
    };
    let marks: Vec<Mark> = curves
        .iter()
        .flat_map(|curve| {
            let (tone, shape) = looks(curve);
            shown(curve).map(move |(epoch, loss)| Mark { x: epoch, y: loss, tone, shape })
        })
        .collect();
    let said =
        |curve: &Curve, (epoch, loss)| format!("{}\nepoch {epoch}\nloss {}", curve.phase, format::loss(loss));
    let texts: Vec<String> =
        curves.iter().flat_map(|curve| shown(curve).map(move |point| said(curve, point))).collect();
    let lines: Vec<(Vec<(f64, f64)>, bool)> =
        curves.iter().map(|curve| (shown(curve).collect(), !curve.is_final)).collect();
    let plot = Plot {
        description: format!(
            "Loss against epoch of {}. The table below has the same numbers.",
            format::counted(curves.len() as u64, "network")
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
        ring: None,
        x: Axis { title: "Epoch", tick: format::tick },
        y: Axis { title: "Loss", tick: format::tick },
        fine: false,
    };
    let has_folds = curves.iter().any(|curve| !curve.is_final);
    let entries = [
        (Shape::Circle, Tone::TritonFar, "the network in the file".to_owned()),
        (
            Shape::Square,
            Tone::Tie,
            "networks that judge it: each learnt without a part of the problems".to_owned(),
        ),
    ];
    let entries = entries.into_iter().take(if has_folds { 2 } else { 1 }).collect();
    view! {
        <Scatter plot />
        {legend(entries)}
    }
}

/// The points that a logarithmic axis can show.
fn shown(curve: &Curve) -> impl Iterator<Item = (f64, f64)> + '_ {
    let points = curve.points.iter().map(|(epoch, loss)| (f64::from(*epoch), *loss));
    points.filter(|(epoch, loss)| *epoch > 0.0 && *loss > 0.0)
}
