//! A problem: its best config, a model's predictions, and all timed configs.

mod predictions;
mod sources;
mod table;

use std::sync::Arc;

use diode_api::{FailedConfig, KernelResult, ModelSummary, ProblemDetail, ProblemView, PublishedTime};
use diode_core::hardware::{find, fits};
use diode_core::ids::ProblemId;
use diode_core::{FailureReason, Layout, Micros, Problem, Rows, Scaling, Stage, Tflops};
use leptos::prelude::*;
use leptos::task::spawn_local;

use crate::components::{
    Best, Deferred, Everywhere, Loaded, MeasureThis, Missing, Skeleton, Stat, Stats, empty, tag_row,
    use_title,
};
use crate::format;
use crate::pages::path_part;
use crate::pages::predict::{SHAPE, has_a_form, problem_of, shape_of};
use crate::pages::problem::predictions::{Predictions, Seen, chart, may_have_learnt, predicted};
use crate::pages::problem::sources::{Snippets, Sources};
use crate::pages::problem::table::ConfigTable;
use crate::query::{link, parameter, problem_page};
use crate::remote::{Load, Remote, remote, remote_model, remote_unseen_model};

#[component]
pub(crate) fn ProblemPage() -> impl IntoView {
    let id = path_part("id");
    let (hardware, method) = (parameter("hardware"), parameter("method"));
    let detail = remote::<ProblemDetail>(move || Some(problem_page(id.get(), hardware.get(), method.get())));
    use_title(move || detail.value().map_or_else(|| "Problem".to_owned(), |detail| name(&detail)));
    let predictions = use_predictions(detail);
    // If the reader comes from Predict, the address has the shape.
    let shape = SHAPE.map(|key| (key.name, parameter(key.name)));
    let missing = move || {
        let shape = shape.map(|(name, value)| (name, value.get()));
        unmeasured(&id.get(), hardware.get(), &method.get(), shape)
    };
    view! {
        <main class="page" class:busy=move || detail.busy() && detail.value().is_some()>
            <Loaded
                remote=detail
                height="48rem"
                missing
                children=move |detail| view! { <Measured detail predictions /> }
            />
        </main>
    }
}

/// Shown if nothing was measured. Predict links here without knowing whether the problem was measured.
fn unmeasured(
    id: &str,
    hardware: String,
    method: &str,
    shape: [(&'static str, String); SHAPE.len()],
) -> AnyView {
    let board = format!("/hardware/{hardware}");
    // Only an address that comes from Predict describes the problem. Others have only the id.
    let problem = described(&shape).filter(|problem| problem.id().as_str() == id);
    let wanted = Some(hardware.clone()).filter(|slug| !slug.is_empty()).zip(problem);
    let predict = link("/predict", shape.iter().cloned().chain([("hardware", hardware.clone())]));
    if id.parse::<ProblemId>().is_err() {
        let sentence = format!("{id} is not the id of a problem.");
        return view! {
            <Missing heading="There is no such problem" sentence>
                <a class="button" href="/">"All hardware"</a>
            </Missing>
        }
        .into_any();
    }
    let (place, back) = match hardware.as_str() {
        "" => (String::new(), ("/".to_owned(), "All hardware")),
        hardware => (format!(" on {hardware}"), (board, "What was measured")),
    };
    let way = if method.is_empty() { String::new() } else { format!(" by {method}") };
    let sentence = format!("There is no timing of it{place}{way}.");
    view! {
        <Missing heading="Not measured yet" sentence>
            <a class="button" href=predict>"Back to Predict"</a>
            <a class="button" href=back.0>{back.1}</a>
        </Missing>
        {wanted.map(|(slug, problem)| {
            let too_large = find(&slug).and_then(|hardware| fits(&hardware, &problem).err());
            let wanted = Signal::stored(Some((slug, problem)));
            view! { <MeasureThis wanted too_large=Signal::stored(too_large) /> }
        })}
    }
    .into_any()
}

/// The problem that the shape in the address describes.
fn described(shape: &[(&'static str, String); SHAPE.len()]) -> Option<Problem> {
    let mut values = SHAPE.each_ref().map(|key| key.default);
    for (value, (_, given)) in values.iter_mut().zip(shape).filter(|(_, (_, given))| !given.is_empty()) {
        *value = given;
    }
    problem_of(values).ok()
}

/// The predictions of the hardware's best model for the configs of a problem. If the model may have learnt the
/// problem, a network of its cross-validation predicts instead, one that was trained without the problem.
fn use_predictions(detail: Remote<ProblemDetail>) -> Signal<Predictions> {
    let listed = remote::<Vec<ModelSummary>>(|| Some("/models".to_owned()));
    let chosen = Memo::new(move |_| {
        let listed = listed.value()?;
        // The model comes after what was measured.
        let slug = detail.value()?.hardware.slug.clone();
        ModelSummary::best_for(&listed, &slug).cloned()
    });
    let model = remote_model(move || chosen.get().map(|model| model.id.to_string()));
    let wanted_unseen = Memo::new(move |_| {
        let (summary, model, detail) = (chosen.get()?, model.value()?, detail.value()?);
        (summary.unseen_models && may_have_learnt(&model, &detail.problem))
            .then(|| (summary.id, detail.problem.id()))
    });
    let unseen = remote_unseen_model(move || wanted_unseen.get());
    let predictions = RwSignal::new(Predictions::default());
    let newest = StoredValue::new(0_u32);
    Effect::new(move |_| {
        newest.update_value(|number| *number += 1);
        let own = newest.get_value();
        let is_wanted = wanted_unseen.get().is_some();
        let (network, learner) = match unseen.get() {
            unseen @ (Load::Waiting | Load::Ready(_)) if is_wanted => (unseen, model.value()),
            // If the server has removed the networks, the model itself predicts.
            _ => (model.get(), None),
        };
        let known = match (detail.value(), chosen.get(), network) {
            (Some(detail), Some(summary), Load::Ready(network)) => {
                let seen = match learner {
                    Some(learner) => Seen::instead_of(&learner, &network),
                    None => Seen::by(&network, &detail.problem),
                };
                spawn_local(async move {
                    let made = predicted(&network, summary, seen, &detail).await;
                    // The page may be gone by now, or may show another problem.
                    if newest.try_get_value() == Some(own) {
                        predictions.set(made);
                    }
                });
                Predictions::Awaited
            }
            (_, _, Load::Failed(reason)) => Predictions::Refused(reason.to_string()),
            (Some(_), None, _) => match listed.get() {
                Load::Waiting => Predictions::Awaited,
                Load::Ready(_) => Predictions::NoModel,
                Load::Failed(reason) => Predictions::Refused(reason.to_string()),
            },
            _ => Predictions::Awaited,
        };
        if predictions.with_untracked(|before| *before != known) {
            predictions.set(known);
        }
    });
    predictions.into()
}

#[component]
fn Measured(detail: Arc<ProblemDetail>, predictions: Signal<Predictions>) -> impl IntoView {
    if detail.configs.is_empty() {
        return view! {
            {headline(&detail)}
            {empty("No config has a time here", "Every config that was tried failed; the reasons are below.")}
            {failures(&detail.failures)}
        }
        .into_any();
    }
    // The table waits for the chart. The table is below the first screenful, and its rows would keep a slow
    // computer from drawing the chart. They would also be made twice, the second time with the predicted times.
    let is_chart_settled = Memo::new(move |before: Option<&bool>| {
        before == Some(&true) || predictions.with(|predictions| *predictions != Predictions::Awaited)
    });
    let table = {
        let detail = Arc::clone(&detail);
        move || {
            if is_chart_settled.get() {
                let detail = Arc::clone(&detail);
                view! { <Deferred height="48rem"><ConfigTable detail=Arc::clone(&detail) predictions /></Deferred> }
                    .into_any()
            } else {
                view! { <Skeleton height="48rem" /> }.into_any()
            }
        }
    };
    let rounds = detail.triton.as_ref().is_some_and(|triton| triton.config.rounds(&detail.problem));
    let asked = (detail.problem.clone(), rounds);
    view! {
        {headline(&detail)}
        {
            let detail = Arc::clone(&detail);
            move || chart(&detail, &predictions.get())
        }
        {failures(&detail.failures)}
        <Snippets detail=Arc::clone(&detail) />
        {table}
        <Deferred height="12rem"><Everywhere asked=Signal::stored(Some(asked.clone())) /></Deferred>
        <Deferred height="12rem"><Sources detail=Arc::clone(&detail) /></Deferred>
    }
    .into_any()
}

/// The name of a problem: `4096×4096×4096 bfloat16 on NVIDIA H200`
fn name(detail: &ProblemDetail) -> String {
    format!("{} {} on {}", detail.problem.dims(), detail.problem.a_dtype, detail.hardware.name)
}

fn headline(detail: &ProblemDetail) -> impl IntoView + use<> {
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
                {tag_row(tags(detail))}
            </div>
            {predict}
        </div>
        {views(detail)}
        {numbers(detail)}
        {detail.published.iter().map(published).collect_view()}
    }
}

/// `vLLM 0.33.0's file: 2 % slower than its default (12.3 µs, 12.1 µs)`
fn published(found: &PublishedTime) -> impl IntoView + use<> {
    let PublishedTime { release, file, batch_size, us, default_us, .. } = found;
    let text = match default_us {
        Some(default) => format!(
            "{release}'s file: {} ({}, {})",
            format::beside_default(*us, *default),
            format::time(*us),
            format::time(*default)
        ),
        None => format!("{release}'s file: {}", format::time(*us)),
    };
    let title = format!("{file}, at {batch_size} tokens");
    view! { <p class="note" role="note" data-testid="published" title=title>{text}</p> }
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
    tags.extend(scales_and_groups(p));
    tags.push(format!("A {}", layout(p.a_layout)));
    tags.push(format!("B {}", layout(p.b_layout)));
    if p.op.has_bias() {
        tags.push(format!("bias {}", p.bias));
    }
    tags.push(format!("timed: {}", format::method(detail.method)));
    tags.push(format::counted(detail.solutions, "run"));
    tags
}

/// How operands are scaled and how rows are grouped, in words.
fn scales_and_groups(p: &Problem) -> Vec<String> {
    let scales = match p.scaling {
        Scaling::None => None,
        Scaling::Tensor => Some("one scale for each operand"),
        Scaling::Row => Some("a scale for each row of A and each column of B"),
        Scaling::Block => Some("a scale for each 1×128 of A and 128×128 of B"),
    };
    let groups = p.groups.into_iter().flat_map(|groups| {
        let rows = match groups.rows {
            Rows::Routed => {
                format!("each token goes to {} of {} groups of weights", groups.top_k, groups.count)
            }
            Rows::Even => format!("rows spread evenly over {} groups of weights", groups.count),
        };
        let stage = groups.stage.map(|stage| match stage {
            Stage::GateUp => "gate and up: M tokens in, a row for each token and group out".to_owned(),
            Stage::Down => "down: a row for each token and group in and out".to_owned(),
        });
        [Some(rows), stage].into_iter().flatten()
    });
    scales.map(str::to_owned).into_iter().chain(groups).collect()
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

/// The answer, and three figures of the best Triton config.
fn numbers(detail: &ProblemDetail) -> impl IntoView + use<> {
    let (triton, library) = (detail.triton.as_ref(), detail.library.as_ref());
    let ties = triton.map(|_| match detail.triton_ties {
        0 => "No other Triton config is as fast to 1 %.".to_owned(),
        1 => "One other Triton config is as fast to 1 %.".to_owned(),
        ties => format!("{} other Triton configs are as fast to 1 %.", format::count(ties)),
    });
    let rounds = |kernel: &KernelResult| kernel.config.rounds(&detail.problem);
    let tf32 = |is: bool| if is { "rounds float32 to TF32" } else { "computes float32 in full" };
    let rounding = triton.zip(library).filter(|(triton, library)| rounds(triton) || rounds(library)).map(
        |(triton, library)| match (rounds(triton), rounds(library)) {
            (true, true) => "Both round float32 to TF32, which has 10 bits of mantissa.".to_owned(),
            (triton, library) => format!(
                "The best Triton config {}, and the library {}, so the two are not compared.",
                tf32(triton),
                tf32(library)
            ),
        },
    );
    let rounding = rounding.or_else(|| {
        (library.is_none() && triton.is_some_and(rounds))
            .then(|| "TF32: this config rounds float32 to 10 bits of mantissa.".to_owned())
    });
    let rate = triton.map(|triton| Tflops::from_work(detail.problem.flops(), Micros(triton.us)).0);
    let (rate, unit) = rate.map(format::rate).unzip();
    let stats = [
        Stat::maybe("Rate of the best Triton config", rate).unit(unit.unwrap_or_default()),
        Stat::maybe(
            "Its share of the roofline",
            triton.and_then(|triton| triton.roofline_share).map(format::percent),
        )
        .explained("Roofline time / time of the best Triton config"),
        Stat::new("Configs timed", format::count(detail.configs.len() as u64 + detail.more_configs)),
    ];
    let said = [ties, rounding].into_iter().flatten().map(|said| view! { <p class="hint">{said}</p> });
    let best = Best::measured(&detail.hardware, triton, library, detail.triton_over_library)
        .of_version(detail.library_version.as_ref());
    view! {
        {best.card(said.collect_view())}
        <Stats stats />
    }
}

fn failures(failures: &[FailedConfig]) -> Option<impl IntoView + use<>> {
    let groups = FailureReason::ALL.iter().filter_map(|reason| {
        let configs: Vec<String> = failures
            .iter()
            .filter(|failure| failure.reason == *reason)
            .map(|failure| failure.config.label())
            .collect();
        (!configs.is_empty()).then(|| {
            view! {
                <dt>{describe(*reason)} " (" {format::count(configs.len() as u64)} ")"</dt>
                <dd class="mono">{configs.join(", ")}</dd>
            }
        })
    });
    (!failures.is_empty()).then(|| {
        view! {
            <details class="card">
                <summary>{format::counted(failures.len() as u64, "config")} " failed"</summary>
                <dl class="failed">{groups.collect_view()}</dl>
            </details>
        }
    })
}

fn describe(reason: FailureReason) -> &'static str {
    match reason {
        FailureReason::OutOfResources => "Needs more shared memory, registers or threads than there are",
        FailureReason::Compile => "Refused by the compiler",
        FailureReason::Launch => "Failed to launch or to finish",
        FailureReason::WrongResult => "Computed something else",
        FailureReason::Timeout => "Ended by the watchdog",
        FailureReason::OutOfMemory => "Inputs did not fit in memory",
        FailureReason::NotFinite => "Imported without a finite time",
    }
}
