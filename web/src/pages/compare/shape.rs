//! One shape on every hardware.

use std::collections::{BTreeMap, BTreeSet};

use diode_api::{NearestProblem, ShapeOnHardware};
use diode_core::Problem;
use leptos::prelude::*;

use crate::components::{Loaded, RatioCell, SHAPE, empty, head, num, shape_field, shape_parameters, table};
use crate::format;
use crate::pages::list::one_shape;
use crate::pages::predict::shape_of;
use crate::query::{link, parameter, problem_page};
use crate::remote::remote;

#[component]
pub(super) fn OneShape() -> impl IntoView {
    let text = parameter(SHAPE);
    let read = Memo::new(move |_| {
        let text = text.get();
        (!text.trim().is_empty()).then(|| one_shape(&text))
    });
    let asked = move || read.get().and_then(Result::ok);
    let problem = move || asked().map(|(problem, _)| problem);
    let fault = move || read.get().and_then(Result::err);
    let found = remote::<Vec<ShapeOnHardware>>(move || {
        problem().map(|problem| link("/nearest", shape_parameters(&problem)))
    });
    let shown = move || {
        match asked() {
        Some((problem, tf32)) => {
            view! { <Loaded remote=found height="16rem" children=move |all| side_by_side(&problem, tf32, &all) /> }
                .into_any()
        }
        None if fault().is_some() => ().into_any(),
        None => empty("No shape yet", view! { "Write one above, such as " <a href="/compare?shape=1x28672x4096%20bf16"><code>"1x28672x4096 bf16"</code></a> "." }),
    }
    };
    view! {
        {shape_field("one-shape", "Shape", "1x28672x4096 bf16", fault)}
        <section class="section" class:busy=move || found.busy() aria-label="Side by side">{shown}</section>
    }
}

fn side_by_side(problem: &Problem, tf32: bool, all: &[ShapeOnHardware]) -> AnyView {
    if all.iter().all(|one| one.items.is_empty()) {
        return empty(
            "Nothing like it was measured",
            "No hardware of this server has a problem of this type.",
        );
    }
    let rows = all.iter().flat_map(|one| rows(problem, tf32, one)).collect_view();
    view! {
        {fastest(all)}
        {unmeasured(problem, all).map(|said| view! { <p class="note" role="note" data-testid="unmeasured">{said}</p> })}
        {as_another_op(problem, all).map(|said| view! { <p class="note" role="note" data-testid="other-op">{said}</p> })}
        {table([
            head("Hardware"), head("Measured"), head("Best Triton config"),
            num("Triton").why("Time of the best Triton config"),
            num("Library").why("Time of the library kernel"),
            num("Triton ÷ library").why("Library time / time of the best Triton config"), head("Predict"),
        ]).testid("side-by-side").rows(rows)}
    }
    .into_any()
}

/// Says where the sizes were not measured, so that nobody takes the times of the nearest problems for the shape's own.
fn unmeasured(asked: &Problem, all: &[ShapeOnHardware]) -> Option<String> {
    let unmeasured = || all.iter().filter(|one| !one.exact);
    let names: Vec<&str> = unmeasured().map(|one| one.name.as_str()).collect();
    let predict = if unmeasured().any(|one| one.models > 0) {
        "; Predict ranks configs for the shape itself"
    } else {
        ""
    };
    (!names.is_empty()).then(|| {
        let (dims, names) = (asked.dims(), names.join(" and "));
        format!(
            "Nobody has measured {dims} on {names}. The table has the nearest measured problems{predict}."
        )
    })
}

/// Says where the sizes were measured, but with another op than the reader asks for.
fn as_another_op(asked: &Problem, all: &[ShapeOnHardware]) -> Option<String> {
    let differs =
        |one: &&ShapeOnHardware| one.exact && one.items.iter().all(|item| item.problem.op != asked.op);
    let differing: Vec<&ShapeOnHardware> = all.iter().filter(differs).collect();
    let names: Vec<&str> = differing.iter().map(|one| one.name.as_str()).collect();
    let ops: BTreeSet<&str> =
        differing.iter().flat_map(|one| &one.items).map(|item| item.problem.op.as_str()).collect();
    let ops: Vec<&str> = ops.into_iter().collect();
    (!names.is_empty()).then(|| {
        format!(
            "You ask for {}. On {}, these sizes were measured as {} only: the same multiplication, {}.",
            asked.op,
            names.join(" and "),
            ops.join(" and "),
            if asked.op.has_bias() { "without its bias" } else { "with a bias added" }
        )
    })
}

/// For each problem that was measured on several types of hardware by one method: the fastest hardware, and by how
/// much.
fn fastest(all: &[ShapeOnHardware]) -> impl IntoView + use<> {
    let mut shared: BTreeMap<_, (String, Vec<(f64, String)>)> = BTreeMap::new();
    for one in all.iter().filter(|one| one.exact) {
        for item in &one.items {
            let Some(triton) = &item.triton else { continue };
            let (_, times) = shared
                .entry((item.problem_id.clone(), item.method))
                .or_insert_with(|| (described(&item.problem), Vec::new()));
            times.push((triton.us, one.name.clone()));
        }
    }
    let sentences = shared.into_values().filter_map(|(what, mut times)| {
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        let ((best, fastest), (us, next)) = (times.first()?, times.get(1)?);
        let factor = format::factor(us / best);
        Some(view! {
            <p class="verdict">
                <strong>{format!("{fastest} is {factor} as fast as {next}")}</strong>
                {format!(" with the best Triton config of {what}.")}
            </p>
        })
    });
    sentences.collect_view()
}

/// Words for a problem, without its size: `addmm bfloat16, B in columns`.
fn described(problem: &Problem) -> String {
    let words = [format!("{} {}", problem.op, problem.a_dtype)].into_iter().chain(problem.particulars());
    words.collect::<Vec<_>>().join(", ")
}

fn rows(asked: &Problem, tf32: bool, one: &ShapeOnHardware) -> Vec<AnyView> {
    let slug = one.hardware.to_string();
    let mut query = shape_of(asked).to_vec();
    query.extend(tf32.then(|| ("tf32", "1".to_owned())));
    query.push(("hardware", slug.clone()));
    let predict = (one.models > 0).then(|| link("/predict", query));
    let name = one.name.clone();
    if one.items.is_empty() {
        return vec![
            view! {
                <tr>
                    <td><a href=format!("/hardware/{slug}")>{name}</a></td>
                    <td class="dim" colspan="5">"nothing like it was measured"</td>
                    <td>{predict.map(|href| view! { <a href=href>"Predict"</a> })}</td>
                </tr>
            }
            .into_any(),
        ];
    }
    one.items.iter().map(|item| row(item, &name, &slug, predict.as_deref(), one.exact).into_any()).collect()
}

fn row(
    item: &NearestProblem,
    name: &str,
    slug: &str,
    predict: Option<&str>,
    exact: bool,
) -> impl IntoView + use<> {
    let href = problem_page(&item.problem_id, slug, item.method);
    let (triton, library) = (item.triton.as_ref(), item.library.as_ref());
    let what = if exact {
        described(&item.problem)
    } else {
        format!("{}, {}", item.problem.dims(), described(&item.problem))
    };
    view! {
        <tr>
            <td><a href=format!("/hardware/{slug}")>{name.to_owned()}</a></td>
            <td class="wrap">
                {(!exact).then_some("nearest: ")} <a href=href>{what}</a>
            </td>
            <td class="mono">{format::or_dash(triton.map(|triton| format::config(&triton.config, &item.problem)))}</td>
            <td class="num">{format::or_dash(triton.map(|triton| format::time(triton.us)))}</td>
            <td class="num">{format::or_dash(library.map(|library| format::time(library.us)))}</td>
            <RatioCell ratio=item.triton_over_library />
            <td>{predict.map(|href| view! { <a href=href.to_owned()>"Predict"</a> })}</td>
        </tr>
    }
}
