//! The overview: what Diode is, what has been measured, and how to contribute.

mod activity;
mod lookup;
mod paste;

use diode_api::{HardwareSummary, ModelSummary};
use leptos::prelude::*;

use self::activity::Happening;
use self::lookup::Lookup;
use self::paste::Paste;
use crate::components::{Empty, Later, Loaded, Snippet, Stat, Stats, use_title};
use crate::format;
use crate::pages::hardware::gains;
use crate::remote::remote;

#[component]
pub(crate) fn HomePage() -> impl IntoView {
    use_title(|| "Matmul kernels without autotuning".to_owned());
    let hardware = remote::<Vec<HardwareSummary>>(|| Some("/hardware".to_owned()));
    let models = remote::<Vec<ModelSummary>>(|| Some("/models".to_owned()));
    view! {
        <main class="page">
            <div>
                <h1>"The best Triton matmul config for your shape, without autotuning"</h1>
                <p class="lede">
                    "Diode shares what GPU owners measured: the time of every Triton config on real shapes, and small models "
                    "that pick configs for shapes nobody has measured yet."
                </p>
            </div>
            <Later>
                <div class="split even lookups">
                    <Lookup />
                    <Paste />
                </div>
            </Later>
            <Later>
                <section class="section">
                    <div class="section-head">
                        <h2>"Hardware"</h2>
                        <a href="/compare?what=hardware">"Compare two kinds of hardware"</a>
                    </div>
                    <Loaded
                        remote=hardware
                        height="13rem"
                        children=move |all| move || hardware_cards(&all, models.value().as_deref().map_or(&[], Vec::as_slice))
                    />
                </section>
            </Later>
            <Later><Happening /></Later>
            <Later><HowToContribute /></Later>
        </main>
    }
}

fn hardware_cards(all: &[HardwareSummary], models: &[ModelSummary]) -> AnyView {
    if all.is_empty() {
        return view! {
            <Empty heading="Nothing has been measured yet">
                "Be the first: " <a href="/contribute">"contribute measurements"</a> "."
            </Empty>
        }
        .into_any();
    }
    view! { <div class="cards">{all.iter().map(|one| card(one, models)).collect_view()}</div> }.into_any()
}

fn card(summary: &HardwareSummary, models: &[ModelSummary]) -> impl IntoView + use<> {
    let href = format!("/hardware/{}", summary.hardware.slug);
    let contents = [
        format::counted(summary.problems, "problem"),
        format::counted(summary.timings, "timing"),
        format::counted(summary.models, "model"),
    ];
    let [wins, ratio, triton, all] = gains(summary);
    let headline = [
        wins,
        ratio,
        Stat::maybe("of roofline, median", summary.median_roofline_share.map(format::percent))
            .explained("Median over problems of roofline time / best time, the library kernel included"),
        triton,
        all,
        Stat::maybe("of best, first pick", first_pick(summary, models).map(format::percent))
            .explained("Geometric mean of best measured time / time of the model's first pick, on problems that it was not trained on"),
    ];
    let updated = summary.updated_at.as_deref().map(|time| format!("updated {}", format::day(time)));
    view! {
        <div class="card linked">
            <div class="card-head">
                <h3><a class="card-link" href=href>{summary.hardware.name.clone()}</a></h3>
                <span class="hint">{updated}</span>
            </div>
            <Stats inner=true stats=headline />
            <p class="hint">{contents.join(" · ")}</p>
        </div>
    }
}

/// How near the first picks of the published model come to the best config, according to the model's
/// evaluation.
fn first_pick(summary: &HardwareSummary, models: &[ModelSummary]) -> Option<f64> {
    let model = ModelSummary::best_for(models, &summary.hardware.slug)?;
    Some(model.evaluation.as_ref()?.top_k.get("1")?.geomean)
}

#[component]
fn HowToContribute() -> impl IntoView {
    let server = window().location().origin().unwrap_or_default();
    view! {
        <section class="section">
            <div class="section-head">
                <h2>"Contribute"</h2>
                <a href="/contribute">"Upload a file in the browser"</a>
            </div>
            <div class="card">
                <ol class="steps">
                    <li>
                        <span class="hint">"1. Measure: on the GPU if there is one, else on the CPU. The kernels come from this server; no Python is needed."</span>
                        <Snippet text=format!("diode collect --server {server} --output my.msgpack.zst") />
                    </li>
                    <li>
                        <span class="hint">"2. Send the file here. The leaderboards count it at once."</span>
                        <Snippet text=format!("diode upload my.msgpack.zst --server {server}") />
                    </li>
                </ol>
            </div>
        </section>
    }
}
