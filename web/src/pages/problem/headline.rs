//! What matters most about a problem, in one strip.

use diode_core::api::{ProblemDetail, ProblemView};
use diode_core::{Layout, Micros, Tflops};
use leptos::prelude::*;

use crate::components::{Stat, Stats};
use crate::format;
use crate::pages::predict::{has_a_form, shape_of};
use crate::query::link;

/// `4096×4096×4096 bfloat16 on NVIDIA H200`
pub(super) fn name(detail: &ProblemDetail) -> String {
    format!("{} {} on {}", detail.problem.dims(), detail.problem.a_dtype, detail.hardware.name)
}

pub(super) fn headline(detail: &ProblemDetail) -> impl IntoView + use<> {
    let hardware = format!("/hardware/{}", detail.hardware.slug);
    let predict = has_a_form(&detail.problem).then(|| {
        let hardware = [("hardware", detail.hardware.slug.to_string())];
        let href = link("/predict", shape_of(&detail.problem).into_iter().chain(hardware));
        view! { <a class="button" href=href>"Open in Predict"</a> }
    });
    view! {
        <div class="page-head">
            <div>
                <p class="crumbs"><a href=hardware>{detail.hardware.name.clone()}</a> " / problem"</p>
                <h1>{detail.problem.dims()}</h1>
                <div class="tags">{tags(detail).into_iter().map(|tag| view! { <span class="tag">{tag}</span> }).collect_view()}</div>
            </div>
            {predict}
        </div>
        {views(detail)}
        {numbers(detail)}
    }
}

fn tags(detail: &ProblemDetail) -> Vec<String> {
    let p = &detail.problem;
    let layout = |layout: Layout| match layout {
        Layout::Row => "row-major",
        Layout::Column => "column-major",
    };
    let mut tags = vec![p.op.to_string(), p.a_dtype.to_string()];
    if p.b_dtype != p.a_dtype {
        tags.push(format!("B {}", p.b_dtype));
    }
    if p.out_dtype != p.a_dtype {
        tags.push(format!("output {}", p.out_dtype));
    }
    tags.push(format!("A {}", layout(p.a_layout)));
    tags.push(format!("B {}", layout(p.b_layout)));
    if p.op.has_bias() {
        tags.push(format!("bias {}", p.bias));
    }
    tags.push(format!("timed: {}", detail.method));
    tags.push(format::counted(detail.solutions, "run"));
    tags
}

/// The switch between hardware and methods, where there are several.
fn views(detail: &ProblemDetail) -> Option<impl IntoView + use<>> {
    let own = ProblemView { hardware: detail.hardware.slug.clone(), method: detail.method };
    let path = format!("/problems/{}", detail.problem_id);
    let chips = detail.views.iter().map(|view| {
        let parameters = [("hardware", view.hardware.to_string()), ("method", view.method.to_string())];
        let current = (*view == own).then_some("true");
        let text = format!("{} · {}", view.hardware, view.method);
        view! { <a class="chip" href=link(&path, parameters) aria-current=current data-noscroll="">{text}</a> }
    });
    (detail.views.len() > 1)
        .then(|| view! { <nav class="chips" aria-label="Views">{chips.collect_view()}</nav> })
}

fn numbers(detail: &ProblemDetail) -> Option<impl IntoView + use<>> {
    let best = detail.configs.first()?;
    let (rate, unit) = format::rate(Tflops::from_work(detail.problem.flops(), Micros(best.us)).0);
    let stats = [
        Stat::new("best config", best.config.label()).config(),
        Stat::new("best time", format::time(best.us)),
        Stat::new("rate", rate).unit(unit),
        Stat::maybe("of roofline", detail.roofline_us.map(|roofline| format::percent(roofline / best.us)))
            .explained("Roofline time / best time"),
        Stat::new("configs timed", format::count(detail.configs.len() as u64)),
    ];
    Some(view! { <Stats stats /> })
}
