//! The publications of a hardware's models: which, when, by whom and why.

use diode_api::Publication;
use diode_core::ids::{HardwareSlug, ModelId};
use leptos::prelude::*;

use crate::components::Loaded;
use crate::format;
use crate::remote::remote;

/// Shows nothing if nothing was published.
#[component]
pub(super) fn Publications(hardware: HardwareSlug, own: ModelId) -> impl IntoView {
    let steps = remote::<Vec<Publication>>(move || Some(format!("/hardware/{hardware}/publications")));
    let shown = move |steps: std::sync::Arc<Vec<Publication>>| {
        let rows = steps.iter().map(|step| row(step, &own)).collect_view();
        (!steps.is_empty()).then(|| {
            view! {
                <section class="section" data-testid="publications">
                    <h2>"What was published when"</h2>
                    <div class="table-box" tabindex="0">
                        <table>
                            <thead>
                                <tr><th>"When"</th><th>"Step"</th><th>"Model"</th><th class="roomy">"By"</th><th>"Why"</th></tr>
                            </thead>
                            <tbody>{rows}</tbody>
                        </table>
                    </div>
                </section>
            }
        })
    };
    view! { <Loaded remote=steps height="9rem" children=shown /> }
}

fn row(step: &Publication, own: &ModelId) -> impl IntoView + use<> {
    let id = step.model.to_string();
    let href = format!("/models/{id}");
    view! {
        <tr class:is-best=step.model == *own>
            <td>{format::minute(&step.at)}</td>
            <td>{step.action.to_string()}</td>
            <td><a href=href><code>{id}</code></a></td>
            <td class="roomy">{step.who.clone()}</td>
            <td class="wrap">{step.why.clone()}</td>
        </tr>
    }
}
