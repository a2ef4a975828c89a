//! The newest contributions, and the agents that are at work.

use diode_api::{Activity, NewestUpload, WorkingAgent};
use leptos::prelude::*;

use crate::components::{Empty, Loaded, Snippet};
use crate::format;
use crate::query::link;
use crate::remote::remote;

#[component]
pub(super) fn Happening() -> impl IntoView {
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
        return view! { <Empty heading="Nothing has been sent yet">"Be the first: " <a href="/contribute">"contribute measurements"</a> "."</Empty> }
            .into_any();
    }
    view! {
        <div class="table-box">
            <table>
                <thead>
                    <tr>
                        <th>"Upload"</th>
                        <th>"Hardware"</th>
                        <th class="num">"Problems"</th>
                        <th class="num roomy">"Timings"</th>
                        <th class="roomy">"By"</th>
                        <th class="num">"Day"</th>
                    </tr>
                </thead>
                <tbody>{uploads.iter().map(upload).collect_view()}</tbody>
            </table>
        </div>
    }
    .into_any()
}

fn upload(upload: &NewestUpload) -> impl IntoView + use<> {
    let compare = link("/compare", [("what", "uploads".to_owned()), ("a", upload.id.to_string())]);
    let hardware = upload
        .hardware
        .iter()
        .map(|one| view! { <a href=format!("/hardware/{}", one.slug)>{one.name.clone()}</a> " " })
        .collect_view();
    let by = upload.contributor.as_ref().map_or_else(|| "–".to_owned(), ToString::to_string);
    view! {
        <tr>
            <td><a href=compare><code>{upload.id.to_string()}</code></a></td>
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
        let server = window().location().origin().unwrap_or_default();
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
        <div class="table-box">
            <table>
                <thead><tr><th>"Agent"</th><th>"Hardware"</th><th class="num">"Problems measured"</th></tr></thead>
                <tbody>{agents.iter().map(agent).collect_view()}</tbody>
            </table>
        </div>
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
