//! The most important facts about a problem, in one strip.

use diode_api::{ProblemDetail, ProblemView};
use diode_core::{Layout, Micros, Tflops};
use leptos::prelude::*;

use crate::components::{Stat, Stats};
use crate::format;
use crate::pages::predict::{has_a_form, shape_of};
use crate::query::link;

/// The name of a problem: `4096×4096×4096 bfloat16 on NVIDIA H200`
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
    tags.push(format!("timed: {}", format::method(detail.method)));
    tags.push(format::counted(detail.solutions, "run"));
    tags
}

/// The switch between hardware and methods, if the problem has several.
fn views(detail: &ProblemDetail) -> Option<impl IntoView + use<>> {
    let own = ProblemView { hardware: detail.hardware.slug.clone(), method: detail.method };
    let path = format!("/problems/{}", detail.problem_id);
    let chips = detail.views.iter().map(|view| {
        let parameters = [("hardware", view.hardware.to_string()), ("method", view.method.to_string())];
        let current = (*view == own).then_some("true");
        let text = format!("{} · {}", view.hardware, format::method(view.method));
        view! { <a class="chip" href=link(&path, parameters) aria-current=current data-noscroll="">{text}</a> }
    });
    (detail.views.len() > 1)
        .then(|| view! { <nav class="chips" aria-label="Views">{chips.collect_view()}</nav> })
}

/// Shown if the best Triton config rounds to TF32 and the library does not.
const ROUNDS: &str = "TF32: this config rounds float32 to 10 bits of mantissa. The library computes in full, so the two \
    are not compared.";

/// The headline numbers: the best Triton config first, then the library.
fn numbers(detail: &ProblemDetail) -> impl IntoView + use<> {
    let triton = detail.triton.as_ref();
    let rate =
        detail.configs.first().map(|best| Tflops::from_work(detail.problem.flops(), Micros(best.us)).0);
    let (rate, unit) = rate.map(format::rate).unzip();
    let ties = format!(
        "{} as fast to 1 %",
        match detail.triton_ties {
            0 => "No other Triton config is".to_owned(),
            1 => "One other Triton config is".to_owned(),
            ties => format!("{} other Triton configs are", format::count(ties)),
        }
    );
    let rounds = triton.is_some_and(|triton| triton.config.rounds(&detail.problem));
    let stats = [
        Stat::maybe(
            "best Triton config",
            triton.map(|triton| format::config(&triton.config, &detail.problem)),
        )
        .config(),
        Stat::maybe("its time", triton.map(|triton| format::time(triton.us))),
        Stat::maybe("library", detail.library.as_ref().map(|library| format::time(library.us)))
            .explained("Time of the library kernel"),
        Stat::maybe("Triton ÷ library, speed", detail.triton_over_library.map(format::factor))
            .explained("Library time / time of the best Triton config: above 1 where Triton is faster"),
        Stat::maybe("highest rate", rate).unit(unit.unwrap_or_default()),
        Stat::maybe("of roofline", triton.and_then(|triton| triton.roofline_share).map(format::percent))
            .explained("Roofline time / time of the best Triton config"),
        Stat::new("configs timed", format::count(detail.configs.len() as u64 + detail.more_configs)),
    ];
    view! {
        <Stats stats />
        {triton.map(|_| view! { <p class="hint">{ties} "."</p> })}
        {rounds.then(|| view! { <p class="hint">{ROUNDS}</p> })}
    }
}
