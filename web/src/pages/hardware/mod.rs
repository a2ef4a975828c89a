//! One kind of hardware: a summary and a graph, then the leaderboard.

mod board;
mod columns;
mod facts;
mod filters;
mod row;

use std::sync::Arc;

use diode_core::api::{HardwareSummary, ProblemPoint};
use leptos::prelude::*;

use self::board::board;
use self::facts::facts;
use super::path_part;
use crate::charts;
use crate::components::{Stat, empty, loaded, stats, title};
use crate::format;
use crate::query::link;
use crate::remote::{Remote, remote};

pub(crate) fn hardware() -> impl IntoView {
    let slug = path_part("slug");
    let summary = remote::<HardwareSummary>(move || Some(format!("/hardware/{}", slug.get())));
    let points = remote::<Vec<ProblemPoint>>(move || Some(format!("/hardware/{}/problems", slug.get())));
    title(move || summary.value().map_or_else(|| slug.get(), |summary| summary.hardware.name.clone()));
    view! {
        <main class="page">
            {loaded(summary, "42rem", move |summary| content(summary, points))}
        </main>
    }
}

fn content(summary: Arc<HardwareSummary>, points: Remote<Vec<ProblemPoint>>) -> impl IntoView {
    let slug = summary.hardware.slug.to_string();
    let predict = link("/predict", [("hardware", slug.clone())]);
    let models = link("/models", [("hardware", slug)]);
    let models_text = format::counted(summary.models, "model");
    view! {
        <div class="page-head">
            <div>
                <h1>{summary.hardware.name.clone()}</h1>
                <p class="lede">{contents(&summary)}</p>
            </div>
            <div class="row">
                <a class="button" href=models>{models_text}</a>
                <a class="button primary" href=predict>"Predict a shape"</a>
            </div>
        </div>
        {stats(false, headline(&summary))}
        <div class="split">
            <section class="card" aria-label="Roofline">
                <h2>"Best rate against the roofline"</h2>
                {
                    let summary = Arc::clone(&summary);
                    loaded(points, "21rem", move |points| roofline(&summary, &points))
                }
            </section>
            {facts(&summary)}
        </div>
        {board(&summary)}
    }
}

fn contents(summary: &HardwareSummary) -> String {
    let updated = summary.updated_at.as_deref().map(|time| format!(", updated {}", format::day(time)));
    format!(
        "{} from {} of {}{}",
        format::counted(summary.timings, "timing"),
        format::counted(summary.solutions, "run"),
        format::counted(summary.problems, "problem"),
        updated.unwrap_or_default()
    )
}

fn headline(summary: &HardwareSummary) -> [Stat; 5] {
    [
        Stat::new("problems", format::count(summary.problems)),
        Stat::new("timings", format::count(summary.timings)),
        Stat::maybe("highest rate", summary.best_tflops.map(format::three_digits)).unit("TFLOP/s"),
        Stat::maybe("of roofline, median", summary.median_roofline_share.map(format::percent))
            .explained("Median over problems of roofline time / best time"),
        Stat::maybe("gain over Inductor's defaults", summary.gain_over_defaults.map(format::factor))
            .explained(
                "Geometric mean over problems of the best of Inductor's default configs / best config",
            ),
    ]
}

fn roofline(summary: &HardwareSummary, points: &[ProblemPoint]) -> impl IntoView + use<> {
    if points.is_empty() {
        return empty("No problems yet", "They appear with the first upload.").into_any();
    }
    let slug = &summary.hardware.slug;
    let href = |point: &ProblemPoint| {
        link(&format!("/problems/{}", point.problem_id), [("hardware", slug.to_string())])
    };
    charts::roofline(points, summary.hardware.facts.as_ref(), &summary.dtypes, &href).into_any()
}
