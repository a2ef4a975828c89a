//! The overview: what Diode is, what has been measured, and how to contribute.

use diode_core::Op;
use diode_core::api::HardwareSummary;
use leptos::prelude::*;
use leptos_router::hooks::use_navigate;

use crate::components::{Chips, Empty, Loaded, Snippet, Stat, Stats, use_title};
use crate::format;
use crate::pages::hardware::gains;
use crate::pages::predict::{DTYPES, SizeField};
use crate::query::address;
use crate::remote::remote;

#[component]
pub(crate) fn HomePage() -> impl IntoView {
    use_title(|| "Matmul kernels without autotuning".to_owned());
    let hardware = remote::<Vec<HardwareSummary>>(|| Some("/hardware".to_owned()));
    view! {
        <main class="page">
            <div>
                <h1>"The best Triton matmul config for your shape, without autotuning"</h1>
                <p class="lede">
                    "Diode shares what GPU owners measured: the time of every Triton config on real shapes, and small models "
                    "that pick configs for shapes nobody has measured yet."
                </p>
            </div>
            <Lookup />
            <section class="section">
                <h2>"Hardware"</h2>
                <Loaded remote=hardware height="13rem" children=|all| hardware_cards(&all) />
            </section>
            <HowToContribute />
        </main>
    }
}

fn hardware_cards(all: &[HardwareSummary]) -> AnyView {
    if all.is_empty() {
        return view! {
            <Empty heading="Nothing has been measured yet">
                "Be the first: " <a href="/contribute">"contribute measurements"</a> "."
            </Empty>
        }
        .into_any();
    }
    view! { <div class="cards">{all.iter().map(card).collect_view()}</div> }.into_any()
}

/// A shape to predict, one step from the answer.
#[component]
fn Lookup() -> impl IntoView {
    let sizes = ["m", "n", "k"].map(|key| (key, RwSignal::new("4096".to_owned())));
    let dtype = RwSignal::new(DTYPES[0].to_string());
    // A batch is there where a whole shape with one was written or pasted.
    let (batch, is_batched) = (RwSignal::new(String::new()), RwSignal::new(false));
    let take = Callback::new(move |(b, shape): (Option<u64>, [u64; 3])| {
        is_batched.set(b.is_some());
        batch.set(b.map(|b| b.to_string()).unwrap_or_default());
        for ((_, value), size) in sizes.into_iter().zip(shape) {
            value.set(size.to_string());
        }
    });
    let navigate = use_navigate();
    let submit = move |event: leptos::ev::SubmitEvent| {
        event.prevent_default();
        let sizes = sizes.map(|(key, size)| (key, size.get_untracked()));
        let batch = is_batched
            .get_untracked()
            .then(|| [("op", Op::Bmm.to_string()), ("b", batch.get_untracked())])
            .into_iter()
            .flatten();
        let parameters = batch.chain(sizes).chain([("dtype", dtype.get_untracked())]);
        let target = address("/predict", parameters);
        navigate(&target, Default::default());
    };
    let dtypes = DTYPES.iter().map(|dtype| (dtype.to_string(), dtype.to_string())).collect();
    view! {
        <section class="card" aria-labelledby="lookup-title">
            <h2 id="lookup-title">"Look up your shape"</h2>
            <form class="lookup" on:submit=submit>
                {move || is_batched.get().then(|| view! { <SizeField key="b" value=batch take /> })}
                {sizes.map(|(key, value)| view! { <SizeField key value take /> }).collect_view()}
                <Chips label="Dtype" choices=dtypes current=dtype choose=move |value| dtype.set(value) />
                <button type="submit" class="button primary">"Predict"</button>
            </form>
        </section>
    }
}

fn card(summary: &HardwareSummary) -> impl IntoView + use<> {
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
        Stat::maybe("best TFLOP/s", summary.best_tflops.map(format::three_digits))
            .explained("The highest rate that any problem reaches"),
    ];
    let updated = summary.updated_at.as_deref().map(|time| format!("updated {}", format::day(time)));
    view! {
        <a class="card card-link" href=href>
            <div class="card-head">
                <h3>{summary.hardware.name.clone()}</h3>
                <span class="hint">{updated}</span>
            </div>
            <Stats inner=true stats=headline />
            <p class="hint">{contents.join(" · ")}</p>
        </a>
    }
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
