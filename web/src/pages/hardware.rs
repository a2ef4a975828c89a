//! A hardware: a summary and a chart, then the leaderboard.

mod board;
mod boards;
mod chart;
mod columns;
mod configs;
mod contributors;
mod coverage;
mod downloads;
mod facts;
mod filters;
mod kernels;
mod models;
mod picks;
mod ranges;
mod row;
mod search;
mod sizes;
mod verdict;

use std::sync::Arc;

use diode_api::HardwareSummary;
use diode_core::Comparison;
use leptos::prelude::*;

pub(crate) use self::configs::config_line;
pub(crate) use self::filters::{Filter, any_of};
pub(crate) use self::kernels::KernelSwitch;
pub(crate) use self::ranges::{Ranges, any_fault};

use self::boards::Boards;
use self::chart::{Points, ProblemChart, use_points};
use self::facts::FactsCard;
use self::filters::Filters;
use self::search::ShapeSearch;
use super::path_part;
use crate::components::{Later, Loaded, Missing, Skeleton, Stat, Stats, due, use_title};
use crate::format;
use crate::query::link;
use crate::remote::{Load, remote};

#[component]
pub(crate) fn HardwarePage() -> impl IntoView {
    let slug = path_part("slug");
    let summary = remote::<HardwareSummary>(move || Some(format!("/hardware/{}", slug.get())));
    use_title(move || summary.value().map_or_else(|| slug.get(), |summary| summary.hardware.name.clone()));
    let missing = move || {
        let sentence = format!("No measurements of {} have been sent to this server.", slug.get());
        view! {
            <Missing heading="Nobody has measured this hardware yet" sentence>
                <a class="button" href="/">"All hardware"</a>
                <a class="button" href="/contribute">"Contribute measurements"</a>
            </Missing>
        }
    };
    view! {
        <main class="page">
            <Loaded
                remote=summary
                height="42rem"
                missing
                children=move |summary| view! { <Measured summary /> }
            />
        </main>
    }
}

#[component]
fn Measured(summary: Arc<HardwareSummary>) -> impl IntoView {
    let slug = summary.hardware.slug.to_string();
    let models = link("/models", [("hardware", slug.clone())]);
    let models_text = format::counted(summary.models, "model");
    let next = if summary.models > 0 {
        let predict = link("/predict", [("hardware", slug)]);
        view! {
            <a class="button" href=models>{models_text}</a>
            <a class="button primary" href=predict>"Predict a shape"</a>
        }
        .into_any()
    } else {
        view! { <a class="button primary" href=format!("{models}#train")>"Train a model"</a> }.into_any()
    };
    let points = use_points(Arc::clone(&summary));
    let chart = Arc::clone(&summary);
    let boards = Arc::clone(&summary);
    // Turns are taken in the order in which they are requested. The chart must come before the other parts. Points that
    // are there already are drawn at once.
    let is_chart_due = if points.is_there() { RwSignal::new(true) } else { due() };
    let are_boards_due = are_boards_due(points, is_chart_due);
    let chart = move || match is_chart_due.get() {
        true => view! { <ProblemChart summary=Arc::clone(&chart) points /> }.into_any(),
        false => view! { <Skeleton height="31rem" /> }.into_any(),
    };
    view! {
        <div class="page-head">
            <div>
                <h1>{summary.hardware.name.clone()}</h1>
                <p class="lede">{contents(&summary)}</p>
            </div>
            <div class="row">{next}</div>
        </div>
        <Stats stats=headline(&summary) />
        {later("4rem", &summary, |summary| view! { <ShapeSearch summary /> }.into_any())}
        <section class="section" aria-label="What to show">
            <KernelSwitch />
            {later("max(7.25rem, 16rem - 16vw)", &summary, |summary| view! { <Filters summary /> }.into_any())}
        </section>
        <div class="split">
            {chart}
            {later("31rem", &summary, |summary| view! { <FactsCard summary /> }.into_any())}
        </div>
        {move || {
            if are_boards_due.get() {
                let summary = Arc::clone(&boards);
                view! { <Later height="46rem"><Boards summary=Arc::clone(&summary) /></Later> }.into_any()
            } else {
                view! { <Skeleton height="46rem" /> }.into_any()
            }
        }}
    }
}

/// Whether the chart is drawn, or will never have points. The boards wait for this: they are below the first screenful,
/// and their rows would keep a slow computer from drawing the chart.
fn are_boards_due(points: Points, is_chart_due: RwSignal<bool>) -> RwSignal<bool> {
    let any_fault = any_fault();
    // If the points are there already, the boards are too: a reader who went back needs the page's old height at once.
    let are_due = RwSignal::new(points.is_there());
    Effect::new(move |_| {
        let is_settled = any_fault.get() || !matches!(points.get(), Load::Waiting);
        if is_chart_due.get() && is_settled && !are_due.get_untracked() {
            // The chart is drawn at the beginning of the next frame.
            request_animation_frame(move || {
                are_due.try_set(true);
            });
        }
    });
    are_due
}

/// A part of the page that is made after the parts before it.
fn later(
    height: &'static str,
    summary: &Arc<HardwareSummary>,
    part: fn(Arc<HardwareSummary>) -> AnyView,
) -> impl IntoView + use<> {
    let summary = Arc::clone(summary);
    view! { <Later height>{part(Arc::clone(&summary))}</Later> }
}

fn contents(summary: &HardwareSummary) -> String {
    let updated = summary.updated_at.as_deref().map(|time| format!(", updated {}", format::day(time)));
    format!(
        "{} of {}{}",
        format::counted(summary.timings, "timing"),
        format::counted(summary.problems, "problem"),
        updated.unwrap_or_default()
    )
}

fn headline(summary: &HardwareSummary) -> [Stat; 6] {
    let (rate, unit) = summary.best_tflops.map(format::rate).unzip();
    let [wins, ratio, triton, all] = gains(summary);
    [
        Stat::maybe("highest rate", rate).unit(unit.unwrap_or_default()),
        Stat::maybe("of roofline, median", summary.median_roofline_share.map(format::percent))
            .explained("Median over problems of roofline time / best time, the library kernel included"),
        wins,
        ratio,
        triton,
        all,
    ]
}

/// How much faster Triton is, and in comparison with what.
pub(crate) fn gains(summary: &HardwareSummary) -> [Stat; 4] {
    let Comparison { problems, wins, ratio, .. } = summary.comparison;
    let wins = (problems > 0).then(|| format!("{} of {}", format::count(wins), format::count(problems)));
    [
        Stat::maybe("Triton beats the library", wins)
            .explained("Problems where the best Triton config is faster than the library kernel, of those where both were timed"),
        Stat::maybe("Triton ÷ library, speed", ratio.map(format::factor))
            .explained("Geometric mean over problems of library time / time of the best Triton config"),
        Stat::maybe("over defaults, Triton alone", summary.triton_gain_over_defaults.map(format::factor))
            .explained("Geometric mean over problems of the time of the best of Inductor's default configs / time of the best Triton config"),
        Stat::maybe("over defaults, with the library", summary.gain_over_defaults.map(format::factor))
            .explained("Geometric mean over problems of the time of the best of Inductor's default configs / best time of Triton and library"),
    ]
}
