//! The overview: what Diode is, what has been measured, and how to contribute.

use std::cmp::Reverse;

use diode_api::{Activity, HardwareSummary, ModelSummary, NewestUpload, WorkingAgent};
use leptos::prelude::*;

use crate::components::{
    Deferred, Findings, Loaded, LookUp, Snippet, Stat, Stats, be_the_first, head, num, page_head, table,
};
use crate::format;
use crate::pages::hardware::{gains, unconfirmed};
use crate::query::server_address;
use crate::remote::remote;

#[component]
pub(crate) fn HomePage() -> impl IntoView {
    let hardware = remote::<Vec<HardwareSummary>>(|| Some("/hardware".to_owned()));
    let models = remote::<Vec<ModelSummary>>(|| Some("/models".to_owned()));
    view! {
        <main class="page">
            {page_head("/")}
            <Deferred>
                <section class="section" aria-labelledby="bar-title">
                    <h2 id="bar-title">"Look up a shape, a list, a model or a log"</h2>
                    <LookUp />
                </section>
            </Deferred>
            <Deferred>
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
            </Deferred>
            <Deferred>
                <section class="section" aria-labelledby="findings-title">
                    <h2 id="findings-title">"What stands out"</h2>
                    <Findings path="/findings" of_several=true />
                </section>
            </Deferred>
            <Deferred><Happening /></Deferred>
            <Deferred><HowToContribute /></Deferred>
        </main>
    }
}

fn hardware_cards(all: &[HardwareSummary], models: &[ModelSummary]) -> AnyView {
    let mut measured: Vec<_> = all.iter().filter(|one| one.timings > 0).collect();
    // Anybody can send timings of hardware that nobody knows.
    measured.sort_by_key(|one| Reverse((one.confirmed, one.problems)));
    let measured: Vec<_> = measured.into_iter().map(|one| card(one, models)).collect();
    if measured.is_empty() {
        return be_the_first("Nothing has been measured yet");
    }
    view! { <div class="cards">{measured}</div> }.into_any()
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
                <h3><a class="card-link" href=href>{summary.hardware.name.clone()}</a> {unconfirmed(summary)}</h3>
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
    let server = server_address();
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

#[component]
fn Happening() -> impl IntoView {
    let activity = remote::<Activity>(|| Some("/activity".to_owned())).renewed();
    view! {
        <Loaded
            remote=activity
            height="19rem"
            children=|activity| view! {
                <div class="split even">
                    <section class="section" aria-labelledby="newest-title" data-testid="newest">
                        <h2 id="newest-title">"Newest contributions"</h2>
                        {newest(&activity.uploads)}
                    </section>
                    <section class="section" aria-labelledby="working-title" data-testid="working">
                        <h2 id="working-title">{heading(activity.working)}</h2>
                        {working(&activity.agents)}
                    </section>
                </div>
            }
        />
    }
}

fn heading(working: u64) -> String {
    match working {
        0 => "No agent is at work".to_owned(),
        1 => "1 agent is at work".to_owned(),
        many => format!("{} agents are at work", format::count(many)),
    }
}

fn newest(uploads: &[NewestUpload]) -> AnyView {
    if uploads.is_empty() {
        return be_the_first("Nothing has been sent yet");
    }
    view! {
        {table([
            head("Upload"), head("Hardware"), num("Problems"), num("Timings").roomy(), head("By").roomy(),
            num("Day"),
        ]).rows(uploads.iter().map(upload).collect_view())}
    }
    .into_any()
}

fn upload(upload: &NewestUpload) -> impl IntoView + use<> {
    let hardware = upload
        .hardware
        .iter()
        .map(|one| view! { <a href=format!("/hardware/{}", one.slug)>{one.name.clone()}</a> " " })
        .collect_view();
    let by = upload.contributor.as_ref().map_or_else(|| "–".to_owned(), ToString::to_string);
    view! {
        <tr>
            <td><a href=format!("/uploads/{}", upload.id)><code>{upload.id.to_string()}</code></a></td>
            <td>{hardware}</td>
            <td class="num">{format::count(upload.problems)}</td>
            <td class="num roomy">{format::count(upload.timings)}</td>
            <td class="roomy">{by}</td>
            <td class="num">{format::day(&upload.received_at)}</td>
        </tr>
    }
}

fn working(agents: &[WorkingAgent]) -> AnyView {
    if agents.is_empty() {
        let server = server_address();
        return view! {
            <div class="card">
                <p class="hint">"An agent measures what this server lacks, for as long as you let it:"</p>
                <Snippet text=format!("diode agent --server {server}") />
                <p class="hint"><a href="/docs/guides/agents.html" rel="external">"How agents work is in the documents"</a></p>
            </div>
        }
        .into_any();
    }
    view! {
        {table([
            head("Agent"), head("Hardware"), num("Problems measured"),
        ]).rows(agents.iter().map(agent).collect_view())}
        <p><a href="/contribute">"All agents"</a></p>
    }
    .into_any()
}

fn agent(agent: &WorkingAgent) -> impl IntoView + use<> {
    view! {
        <tr>
            <td>{agent.name.clone()} {agent.simulated.then_some(" (simulated)")}</td>
            <td><a href=format!("/hardware/{}", agent.hardware)>{agent.hardware.to_string()}</a></td>
            <td class="num">{format::count(agent.measured)}</td>
        </tr>
    }
}
