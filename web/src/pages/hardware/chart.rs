//! A chart of the filtered problems.

use std::collections::BTreeSet;
use std::sync::Arc;

use diode_api::{HardwareSummary, Kernels, MAX_POINTS};
use leptos::prelude::*;
use leptos_router::hooks::use_query_map;

use super::filters::filter_parameters;
use super::kernels::{chosen, subject};
use super::ranges::any_fault;
use crate::charts::{self, Point, Shape, Tone};
use crate::components::{Empty, Loaded};
use crate::format;
use crate::query::link;
use crate::remote::{Remote, remote_list};

pub(super) type Points = Remote<Vec<Point>>;

/// The points of the filtered problems.
pub(super) fn use_points(summary: Arc<HardwareSummary>) -> Points {
    let (map, any_fault) = (use_query_map(), any_fault());
    remote_list(move || {
        let given = map.with(|map| filter_parameters(&summary, map));
        (!any_fault.get()).then(|| link(&format!("/hardware/{}/problems", summary.hardware.slug), given))
    })
}

#[component]
pub(super) fn ProblemChart(summary: Arc<HardwareSummary>, points: Points) -> impl IntoView {
    let slug = summary.hardware.slug.to_string();
    let kernels = chosen();
    let chart = move |points: Arc<Vec<Point>>| {
        let slug = slug.clone();
        move || drawn(&points, kernels.get(), &slug)
    };
    view! {
        <section class="card" class:busy=move || points.busy() && points.value().is_some() aria-label="Chart of the problems">
            <div class="card-head">
                <h2>"Share of the roofline"</h2>
                <span class="hint">{move || subject(kernels.get())}</span>
            </div>
            <Loaded remote=points height="24rem" children=chart />
        </section>
    }
}

fn drawn(points: &Arc<Vec<Point>>, kernels: Kernels, slug: &str) -> AnyView {
    if points.is_empty() {
        return view! { <Empty heading="No problem to draw">"No problem that the filters leave has a rate."</Empty> }
            .into_any();
    }
    let slug = slug.to_owned();
    let page_of = move |point: &Point| {
        let view = [("hardware", slug.clone()), ("method", point.method.to_string())];
        link(&format!("/problems/{}", point.problem_id), view)
    };
    let is_sample = points.len() >= MAX_POINTS as usize;
    let sampled = || {
        format!(
            "Of so many problems, the chart shows an even sample of {}.",
            format::count(MAX_POINTS.into())
        )
    };
    view! {
        {charts::roofline(points, kernels, Box::new(page_of))}
        {legend(points)}
        {is_sample.then(|| view! { <p class="hint">{sampled()}</p> })}
    }
    .into_any()
}

/// The meaning of the colours and shapes that occur in the chart.
fn legend(points: &[Point]) -> impl IntoView + use<> {
    let tones: BTreeSet<Tone> = points.iter().map(|point| Tone::of(point.triton_over_library)).collect();
    let dtypes: BTreeSet<_> = points.iter().map(|point| point.problem.a_dtype).collect();
    let tones = tones.into_iter().map(|tone| (Shape::Circle, tone, tone.words().to_owned()));
    let dtypes = dtypes.into_iter().map(|dtype| (Shape::of(dtype), Tone::Plain, dtype.to_string()));
    charts::legend(tones.chain(dtypes).collect())
}
