//! Shapes to start from: the measured problems nearest to common shapes.

use std::sync::Arc;

use diode_api::NearestProblem;
use diode_core::{DType, Layout, Op, Problem, ProblemFields};
use leptos::prelude::*;
use leptos_router::hooks::use_query_map;

use super::address::SHAPE;
use super::fields::Fields;
use crate::components::nearest_path;
use crate::remote::remote;

/// Common shapes. The first is the form's default.
const COMMON: [(&str, [u64; 3]); 5] = [
    ("square", [4096, 4096, 4096]),
    ("Llama 8B, MLP up", [2048, 14336, 4096]),
    ("Llama 8B, MLP down", [2048, 4096, 14336]),
    ("decode, 16 tokens", [16, 4096, 4096]),
    ("small", [256, 512, 256]),
];

/// This many nearest problems are searched for one that differs from the form's defaults only in its sizes.
const LOOKED_AT: u32 = 20;

#[component]
pub(super) fn Examples(
    fields: Fields,
    /// The slug of the model's hardware. Empty while there is no model.
    #[prop(into)]
    hardware: Signal<String>,
) -> impl IntoView {
    let names_a_shape =
        use_query_map().with_untracked(|map| SHAPE.iter().any(|key| map.get(key.name).is_some()));
    let found = COMMON.map(|(name, sizes)| (name, measured(hardware, sizes)));
    let default = found[0].1;
    let chosen = move || {
        let Fields { op, b, m, n, k, dtype, a_layout, b_layout, .. } = fields;
        [op, b, m, n, k, dtype, a_layout, b_layout].map(|signal| signal.get_untracked())
    };
    let first = chosen();
    Effect::new(move |done: Option<bool>| {
        let Some(problem) = default.get().filter(|_| done != Some(true)) else {
            return done.unwrap_or(false);
        };
        if !names_a_shape && chosen() == first {
            fill(fields, &problem);
        }
        true
    });
    let chips = found.map(|(name, problem)| {
        move || {
            problem.get().map(|problem| {
                let dims = problem.dims();
                view! {
                    <button type="button" class="chip" data-shape=dims.clone() on:click=move |_| fill(fields, &problem)>
                        {format!("{name} {dims}")}
                    </button>
                }
            })
        }
    });
    view! {
        <div class="field" role="group" aria-label="Measured examples">
            <span class="label">"Measured examples"</span>
            <div class="chips">{chips.collect_view()}</div>
        </div>
    }
}

/// The measured problem nearest to a shape, once the server has answered.
fn measured(hardware: Signal<String>, [m, n, k]: [u64; 3]) -> Memo<Option<Problem>> {
    let common = Problem::new(ProblemFields::plain(Op::Mm, 1, m, n, k, DType::BFloat16)).ok();
    let near = remote::<Vec<NearestProblem>>(move || {
        let hardware = Some(hardware.get()).filter(|hardware| !hardware.is_empty())?;
        Some(nearest_path(&hardware, common.as_ref()?, LOOKED_AT))
    });
    let usual = |near: &&NearestProblem| near.problem.op == Op::Mm && near.problem.a_layout == Layout::Row;
    Memo::new(move |_| {
        let near: Arc<Vec<NearestProblem>> = near.value()?;
        near.iter().find(usual).map(|near| near.problem.clone())
    })
}

fn fill(fields: Fields, problem: &Problem) {
    let p = problem;
    if p.op.has_bias() {
        fields.bias.set(p.bias.to_string());
    }
    for (signal, value) in [
        (fields.op, p.op.to_string()),
        (fields.b, p.b.to_string()),
        (fields.m, p.m.to_string()),
        (fields.n, p.n.to_string()),
        (fields.k, p.k.to_string()),
        (fields.dtype, p.a_dtype.to_string()),
        (fields.a_layout, p.a_layout.to_string()),
        (fields.b_layout, p.b_layout.to_string()),
    ] {
        signal.set(value);
    }
}
